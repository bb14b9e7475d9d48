"""Bench of hw.sequencer.load: the bytes of a real image through DIRECT_READ commands into header,
table, parameters, GELU, slopes."""

import cocotb

from symlight.hw.compiler.image import build_images
from symlight.hw.interface import Traffic
from symlight.hw.sequencer.load import CHUNK, LoadUnit
from symlight.hw.types import PARAMETER_BITS, BroadcastKind, ChannelCommand, Work
from tests.benches.bench import Agent, Bench, Sink, stalls
from tests.benches.sequencer.sequencer_bench import ENGINE, IDLE, LIMIT, Ports, Watch, plain, tiny

BEAT = ENGINE.beat_bytes
GELU_WORDS = 256 // ENGINE.lanes
WRITES = {
    "table": ("table_index", "table_entry"),
    "parameter": ("parameter_index", "parameter_word"),
    "gelu": ("gelu_index", "gelu_word"),
    "cast": ("cast",),
}


class Image(Agent):
    """Channel 0: answers DIRECT_READ commands from its buffer, beat by beat; never more than one command at a
    time."""

    def __init__(self, bench, ports, data, side, pattern):
        super().__init__(bench)
        self.ports, self.data, self.side, self.pattern = (
            ports,
            bytearray(data),
            side,
            stalls(bench.rng, pattern),
        )
        self.beats, self.wait, self.taken, self.driven = [], 0, 0, False

    def __str__(self):
        return f"{len(self.beats)} beats to come, {self.taken} commands"

    def idle(self):
        self.beats.clear()
        self.ports.set(beat_valid=0)

    def drive(self):
        self.wait = max(0, self.wait - 1)
        self.driven = bool(self.beats) and not self.wait and not next(self.pattern)
        self.ports.set(beat_valid=self.driven)
        if self.driven:
            beat = self.beats.pop(0)
            self.ports.set(beat=int.from_bytes(self.data[beat * BEAT : (beat + 1) * BEAT], "little"))
        else:
            self.ports.junk(self.bench.rng, "beat")

    def sample(self):
        self.count += self.driven
        while self.taken < len(self.side.received):
            command = self.side.received[self.taken]
            self.taken += 1
            assert not self.beats, "a command while beats of another one are to come"
            assert (command["work"], command["io"], command["channel"]) == (Work.DIRECT_READ.value, 0, 0)
            assert command["traffic"] == Traffic.IO and 0 < command["count"] <= CHUNK
            self.beats = [command["base"] + i for i in range(command["count"])]
            self.wait = self.bench.rng.randrange(1, 20)

    def check_empty(self):
        assert not self.beats


class Gelu(Agent):
    """The GELU part: busy for `lanes` cycles after every word."""

    def __init__(self, bench, ports):
        super().__init__(bench)
        self.ports, self.busy = ports, 0

    def drive(self):
        self.ports.set(gelu_busy=self.busy > 0)

    def sample(self):
        self.busy = max(0, self.busy - 1)
        if self.ports.get("gelu_valid"):
            assert not self.busy, "a GELU word while the last one is being stored"
            self.busy = ENGINE.lanes
            self.count += 1


class Setup:
    def __init__(self, dut, name="tiny", idle="never", stall="never"):
        self.bench = Bench(dut)
        self.ports = Ports(dut, LoadUnit(ENGINE), "load")
        self.layout, self.model, self.header, self.table = tiny(ENGINE, name)
        self.side = Sink(self.bench, "load__side", ChannelCommand, stall)
        image = build_images(self.layout, self.model)[0]
        self.image = Image(self.bench, self.ports, image.tobytes(), self.side, idle)
        Gelu(self.bench, self.ports)
        self.writes = {k: Watch(self.bench, self.ports, f"{k}_valid", v) for k, v in WRITES.items()}
        self.done = Watch(self.bench, self.ports, "done", ("failed", "header"))

    async def load(self):
        for watch in self.writes.values():
            watch.seen.clear()
        self.ports.set(start=1)
        await self.bench.step()
        self.ports.set(start=0)
        await self.bench.until(lambda count=self.done.count: self.done.count > count, limit=60_000)
        return self.done.seen[-1]

    def check(self):
        """Everything is where the layout says, once and in order."""
        layout, data = self.layout, self.image.data
        seen = {name: watch.seen for name, watch in self.writes.items()}
        assert self.done.seen[-1] == {"failed": 0, "header": plain(self.header)}
        assert seen["table"] == [
            {"table_index": i, "table_entry": plain(e)} for i, e in enumerate(self.table)
        ]

        def words(base, count, beats):
            size = beats * BEAT
            return [data[base * BEAT + i * size : base * BEAT + (i + 1) * size] for i in range(count)]

        lanes, width = ENGINE.lanes, PARAMETER_BITS // 8
        parameters = [
            [int.from_bytes(word[width * k : width * (k + 1)], "little") for k in range(lanes)]
            for word in words(layout.parameter_base, layout.parameter_words, layout.parameter_beats)
        ]
        assert seen["parameter"] == [
            {"parameter_index": i, "parameter_word": p} for i, p in enumerate(parameters)
        ]
        table = [int(v) for v in self.model.head.gelu_table]
        assert seen["gelu"] == [
            {"gelu_index": i, "gelu_word": table[i * lanes : (i + 1) * lanes]} for i in range(GELU_WORDS)
        ]
        casts = [item["cast"] for item in seen["cast"]]
        assert {(cast["kind"], cast["last"]) for cast in casts} == {(BroadcastKind.SLOPE.value, 0)}
        assert [cast["index"] for cast in casts] == list(range(layout.slope_beats))
        raw = b"".join(bytes(cast["word"]) for cast in casts)
        slopes = [int.from_bytes(raw[2 * h : 2 * h + 2], "little") for h in range(layout.shape.heads)]
        assert slopes == [int(s) for s in self.model.slopes]


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, stall=["never", "random"])
async def images(dut, idle, stall):
    """A whole image, twice, the second one after other units' beats have passed."""
    setup = Setup(dut, "odd" if idle == "slow" else "tiny", idle, stall)
    setup.ports.set(start=0)
    await setup.bench.reset()
    await setup.load()
    setup.check()
    await setup.bench.step(5)
    setup.image.beats = [setup.bench.rng.randrange(100) for _ in range(20)]  # nobody asked for these
    await setup.bench.until(lambda: not setup.image.beats, limit=1000)
    await setup.bench.step(5)
    await setup.load()
    setup.check()
    await setup.bench.finish()
    assert setup.done.count == 2


@cocotb.test(**LIMIT)
async def no_image(dut):
    """Another magic: failed, nothing is stored, and the next good image loads."""
    setup = Setup(dut)
    setup.ports.set(start=0)
    await setup.bench.reset()
    good = bytes(setup.image.data)
    setup.image.data[2] ^= 1
    assert (await setup.load())["failed"] == 1
    assert not any(watch.seen for watch in setup.writes.values())
    setup.image.data[:] = good
    await setup.load()
    setup.check()
    await setup.bench.finish()


@cocotb.test(**LIMIT)
async def after_a_reset(dut):
    """A reset in the middle of a load, as after a fault; the header of the last load outlives a reset."""
    setup = Setup(dut, idle="random")
    setup.ports.set(start=0)
    await setup.bench.reset()
    await setup.load()
    await setup.bench.reset(8)
    assert setup.ports.get("header") == plain(setup.header), "the header is gone"
    for cycles in (40, 400, 1000):
        setup.ports.set(start=1)
        await setup.bench.step()
        setup.ports.set(start=0)
        await setup.bench.step(cycles)
        await setup.bench.reset(8)
        await setup.load()
        setup.check()
    await setup.bench.finish()
