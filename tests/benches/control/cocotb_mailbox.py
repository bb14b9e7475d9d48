"""Bench of hw.mailbox with hw.counters (`test_mailbox.Station`): what is written to memory, in order."""

import struct

import cocotb

from symlight.hw.config import Engine
from symlight.hw.counters import ADD
from symlight.hw.interface import COUNTERS, MAILBOX, MAILBOX_MAGIC, Io
from symlight.hw.mailbox import FIELDS, Mailbox, TokenWriter, io_write_layout, mailbox_fields
from tests.benches.bench import Agent, Bench, Sink, Source, bits, parameters

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
GUARD = 0xAA
engine = Engine(channels=2, lanes=parameters()["lanes"])
build_id = int(parameters()["build_id"], 16)
words = MAILBOX["counters"] + 2 * COUNTERS
# with a memory that never waits
duration = 3 * words // 2 + words * 4 // engine.beat_bytes + 2 * (Mailbox.SETTLE + 1) + 1
# Beats that hold none of the first eight words come first.
first_beats = -(-8 * 4 // engine.beat_bytes)


class Memory(Agent):
    """The io buffer at the write path: each beat lands some time after its transfer, and is seen as
    pending only `seen` cycles after it (or never, when it lands before)."""

    def __init__(self, bench, stall="never", seen=1, latency=lambda address: 3):
        super().__init__(bench)
        self.sink = Sink(bench, "write", io_write_layout(engine), stall=stall)
        self.seen, self.latency, self.waiting, self.addresses, self.done = seen, latency, [], [], []
        self.bytes = bytearray([GUARD] * Io.STATE)

    def idle(self):
        self.dut.writes_quiet.value = 1

    def drive(self):
        now = self.bench.cycle
        for beat in [beat for beat in self.waiting if beat[1] <= now]:
            self.waiting.remove(beat)
            start = beat[2]["address"] * engine.beat_bytes
            self.bytes[start : start + engine.beat_bytes] = beat[2]["word"].to_bytes(
                engine.beat_bytes, "little"
            )
        self.dut.writes_quiet.value = int(all(taken + self.seen > now for taken, _, _ in self.waiting))

    def sample(self):
        if int(self.dut.done.value):
            assert not self.waiting, "done before the last answer"
            self.done.append(self.bench.cycle)
        if self.sink.count > len(self.addresses):  # the sink has sampled before
            beat = self.sink.received[-1]
            if beat["address"] < first_beats:
                assert all(b[2]["address"] < first_beats for b in self.waiting), (
                    "first words before the answers to the others"
                )
            self.addresses.append(beat["address"])
            self.waiting.append((self.bench.cycle, self.bench.cycle + self.latency(beat["address"]), beat))
            self.count += 1

    def check_empty(self):
        assert not self.waiting


class Run:
    """One bench: counters, fields, the memory."""

    def __init__(self, dut, **memory):
        self.dut, self.bench = dut, Bench(dut)
        self.rng = self.bench.rng
        self.memory = Memory(self.bench, **memory)
        self.add = Source(self.bench, "add", ADD)
        self.token = Source(self.bench, "token")
        self.token_write = Sink(self.bench, "token_write", io_write_layout(engine))
        dut.clear.value, dut.start.value = 0, 0

    async def pulse(self, name):
        getattr(self.dut, name).value = 1
        await self.bench.step()
        getattr(self.dut, name).value = 0

    async def fill(self, extreme=False):
        """New values of counters (those of a run's start are cleared) and fields."""
        await self.pulse("clear")

        def value(width):
            largest = (1 << width) - 1
            return largest if extreme else self.rng.choice((0, 1, largest, self.rng.getrandbits(width)))

        adds = [
            (index, value(ADD["amount"].width))
            for index in range(COUNTERS)
            for _ in range(self.rng.randrange(3) + extreme)
        ]
        self.rng.shuffle(adds)
        self.counters = [sum(amount for k, amount in adds if k == index) for index in range(COUNTERS)]
        self.fields = {name: value(32) for name in FIELDS}
        self.dut.fields.value = bits(mailbox_fields(), self.fields)
        self.add.send([{"index": index, "amount": amount} for index, amount in adds])
        await self.bench.until(lambda: not self.add.queue, limit=4000)
        await self.bench.step()
        await self.bench.until(lambda: int(self.dut.idle.value), limit=100)

    async def write(self, limit=20_000):
        """Have the mailbox written, and check it."""
        count = len(self.memory.done)
        self.memory.addresses.clear()
        self.memory.sink.count = 0
        self.memory.bytes[:] = bytes([GUARD]) * Io.STATE
        start = self.bench.cycle
        await self.pulse("start")
        await self.bench.until(lambda: len(self.memory.done) > count, limit)
        self.check()
        return self.memory.done[-1] - start

    def check(self):
        """The table of the interface, word by word."""
        found = struct.unpack(f"<{Io.STATE // 4}I", self.memory.bytes)
        assert found[MAILBOX["magic"]] == MAILBOX_MAGIC
        for name in (
            "run_id",
            "status",
            "stop_reason",
            "n_tokens",
            "error",
            "error_channel",
            "error_address",
            "position",
            "pending",
            "has_pending",
            "passes",
        ):
            assert found[MAILBOX[name]] == self.fields[name], name
        at = MAILBOX["build_id"]
        assert struct.pack("<4I", *found[at : at + 4]) == build_id.to_bytes(16, "little")
        at = 4 * MAILBOX["counters"]
        counters = struct.unpack_from(f"<{COUNTERS}Q", self.memory.bytes, at)
        assert list(counters) == self.counters
        written = -(-words * 4 // engine.beat_bytes)
        assert sorted(self.memory.addresses) == list(range(written)), "each beat once"
        assert self.memory.addresses[-1] == 0, "the first word is in the last beat"
        assert set(self.memory.bytes[written * engine.beat_bytes :]) == {GUARD}


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=["never", "random", "bursts", "slow"], late=[False, True])
async def mailbox(dut, stall, late):
    seen = Mailbox.SETTLE if late else 1
    run = Run(dut, stall=stall, seen=seen, latency=lambda _: seen + run.rng.randrange(60))
    await run.bench.reset()
    for extreme in (False, True):
        await run.fill(extreme)
        await run.write()
    await run.bench.finish()
    assert len(run.memory.done) == 2


@cocotb.test(**LIMIT)
async def slow_memory(dut):
    """The last beat of either part takes long, and is seen as pending only just in time; no other beat is
    pending then."""
    run = Run(dut, seen=Mailbox.SETTLE, latency=lambda address: 500 if address in (first_beats, 0) else 1)
    await run.bench.reset()
    await run.fill()
    assert await run.write() > 1000
    await run.bench.finish()


@cocotb.test(**LIMIT)
async def latency(dut):
    run = Run(dut, latency=lambda _: 2)
    await run.bench.reset()
    await run.fill()
    assert await run.write() == duration
    await run.bench.finish()


@cocotb.test(**LIMIT)
async def start_is_ignored_meanwhile_and_reset_ends_it(dut):
    run = Run(dut, latency=lambda _: 2)
    await run.bench.reset()
    await run.fill()

    async def again():
        for _ in range(8):
            await run.bench.step(40)
            await run.pulse("start")

    await run.pulse("start")
    await again()
    await run.bench.until(lambda: run.memory.done, limit=1000)
    run.check()
    await run.bench.step(600)
    assert len(run.memory.done) == 1
    for cycles in (1, 2, 3, 8, 300, duration - 15, duration - 5):
        await run.pulse("start")
        await run.bench.step(cycles)
        await run.bench.reset()
        await run.bench.step(20)
        assert not int(dut.write__valid.value) and len(run.memory.done) == 1
    await run.fill()
    await run.write()
    await run.bench.finish()


def token_beats(tokens):
    """The beat that each token makes, from the layout of the io buffer."""
    per_beat, beats = engine.beat_bytes // 4, []
    for n in range(len(tokens)):
        first = n - n % per_beat
        content = struct.pack(f"<{per_beat}I", *(tokens[first : n + 1] + [0] * per_beat)[:per_beat])
        beats.append(
            {
                "address": (Io.TOKENS + 4 * first) // engine.beat_bytes,
                "word": int.from_bytes(content, "little"),
            }
        )
    return beats


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts"], stall=["never", "random", "bursts", "slow"])
async def tokens(dut, idle, stall):
    bench = Bench(dut)
    source, sink = (
        Source(bench, "token", idle=idle),
        Sink(bench, "token_write", io_write_layout(engine), stall=stall),
    )
    dut.clear.value, dut.start.value = 0, 0
    await bench.reset()
    for length in (1, 70, 2 * engine.beat_bytes // 4, 33):  # runs; whole beats among them
        dut.clear.value = 1
        await bench.step()
        dut.clear.value = 0
        assert int(dut.count.value) == 0
        sink.received.clear()
        numbers = [bench.rng.choice((0, 0xFFFF, bench.rng.getrandbits(16))) for _ in range(length)]
        source.send(numbers)
        await bench.until(lambda: len(sink.received) == length, limit=3000)
        assert sink.received == token_beats(numbers)
        assert int(dut.count.value) == length
    await bench.finish()


@cocotb.test(**LIMIT)
async def one_token_a_cycle(dut):
    bench = Bench(dut)
    source, sink = Source(bench, "token"), Sink(bench, "token_write", io_write_layout(engine))
    dut.clear.value, dut.start.value = 0, 0
    await bench.reset()
    source.send(range(100))
    await bench.until(lambda: sink.count == 100, limit=200)
    assert sink.cycles == [cycle + TokenWriter.LATENCY for cycle in source.cycles]
    assert source.cycles == list(range(source.cycles[0], source.cycles[0] + 100))
    await bench.finish()
