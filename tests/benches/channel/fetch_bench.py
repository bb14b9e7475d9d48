"""Agents and expectations of the bench of hw.channel.fetch."""

from symlight.hw.channel.burst import RUN
from symlight.hw.channel.gather import ROW
from symlight.hw.channel.runs import SCALE_BEATS
from symlight.hw.config import Engine
from symlight.hw.interface import Traffic
from symlight.hw.types import ChannelCommand, Work
from tests.benches.bench import Agent, Bench, Sink, Source
from tests.benches.channel.channel_place import GroupColumnTable
from tests.benches.channel.memory_bench import ReadMemory, beat_at

# a read FIFO in block RAM, as in any real engine
ENGINE = Engine(channels=8, lanes=16, read_beats=128, kv_inflight=24)
POINTER, IO_POINTER = 0x7_FFFF_E000, 0x1_2340_5000  # sums carry far
INDEX = 5
PATTERNS = ["never", "random", "bursts", "slow"]


class Kv(Agent):
    """The loader's side: runs, at most `AHEAD` before their fence, and a pulse for each that was handed
    over."""

    AHEAD = 3

    def __init__(self, bench, idle, commands):
        super().__init__(bench)
        self.runs, self.pulsed = Source(bench, "kv_runs", RUN, idle=idle), 0
        # fences: places in the list of commands
        self.commands, self.fences, self.waiting = commands, [], []

    def idle(self):
        self.dut.kv_issued.value = 0

    def drive(self):
        done = sum(place < self.commands.count for place in self.fences)
        if self.waiting and self.runs.count + len(self.runs.queue) < done + self.AHEAD:
            self.runs.send([self.waiting.pop(0)])
        self.dut.kv_issued.value = int(self.runs.count > self.pulsed)
        self.pulsed += self.runs.count > self.pulsed


class Reservation(Agent):
    """Weight beats asked for and not yet taken by the lanes never exceed the read FIFO; KV beats in flight
    their limit."""

    def __init__(self, bench, memory, beats, kv, kv_addresses):
        super().__init__(bench)
        self.memory, self.beats, self.kv, self.kv_addresses = memory, beats, kv, kv_addresses
        self.asked = self.kv_asked = self.seen = self.most = self.kv_most = 0

    def sample(self):
        for address, beats in self.memory.bursts[self.seen :]:
            is_kv = address in self.kv_addresses
            self.kv_asked, self.asked = self.kv_asked + beats * is_kv, self.asked + beats * (not is_kv)
        self.seen = len(self.memory.bursts)
        self.most = max(self.most, self.asked - self.beats.count)
        self.kv_most = max(self.kv_most, self.kv_asked - self.kv.count)
        assert self.most <= ENGINE.read_beats, "more weight beats in flight than the read FIFO holds"


class FetchBench:
    """Sources, sinks and expectations of one test."""

    def __init__(self, dut, idle="never", stall="never", memory="never", delay=5):
        self.dut, self.bench = dut, Bench(dut)
        bench = self.bench
        dut.pointer.value, dut.io_pointer.value, dut.index.value = POINTER, IO_POINTER, INDEX
        dut.abort.value = dut.clear.value = dut.count_index.value = 0
        self.place = GroupColumnTable(bench, INDEX)
        self.commands = Source(bench, "commands", ChannelCommand, idle=idle)
        self.rows = Source(bench, "rows", ROW, idle=idle)
        self.kv_side = Kv(bench, idle, self.commands)
        self.memory = ReadMemory(bench, ENGINE.beat_bytes, stall=memory, idle=memory, delay=delay)
        self.beats, self.kv = Sink(bench, "beats", stall=stall), Sink(bench, "kv", stall=stall, hold=False)
        self.expected, self.expected_kv, self.kv_addresses = [], [], set()
        self.reservation = Reservation(bench, self.memory, self.beats, self.kv, self.kv_addresses)
        self.traffic = dict.fromkeys(range(16), 0)
        self.kv_runs = 0

    def _expect(self, first, beats, command):
        """Beats first .. of this channel's buffer (or of the io buffer) come to the lanes."""
        pointer = IO_POINTER if command.get("io") else POINTER
        self.expected += [pointer + (first + k) * ENGINE.beat_bytes for k in range(beats)]
        self.traffic[command.get("traffic", 0)] += beats

    def send(self, command, rows=()):
        """A command; for MATRIX and HEAD without `stream`, `rows` of this channel's group (of every tile)."""
        if command["work"] == Work.FENCE:
            self.kv_side.fences.append(self.commands.count + len(self.commands.queue))
        self.commands.send([command])
        work, lanes, base = command["work"], ENGINE.lanes, command.get("base", 0)
        active = INDEX // command.get("columns", 1) >> command.get("log_groups", 0) == 0
        if work == Work.DIRECT_READ and command["channel"] == INDEX:
            self._expect(base, command["count"], command)
        elif work == Work.HEAD and not command["stream"]:
            tile = command["words"] * lanes + SCALE_BEATS
            for number in range(command["count"]):
                self._send_rows(rows, {**command, "base": base + number * tile, "beats": 1})
                self._expect(base + (number + 1) * tile - SCALE_BEATS, SCALE_BEATS, command)
        elif work == Work.HEAD:
            self._expect(base, command["count"] * (command["words"] * lanes + SCALE_BEATS), command)
        elif work == Work.MATRIX and command["stream"]:
            count = (command["words"] * lanes >> command["log_groups"]) * command["beats"] if active else 0
            self._expect(base, count, command)
        elif work == Work.MATRIX:
            self._send_rows(rows if active else (), command)

    def _send_rows(self, rows, command):
        """The gather's rows of a matrix or of a tile, with a marker behind them or without."""
        rows, base, beats = list(rows), command.get("base", 0), command["beats"]
        for row in rows:
            self._expect(base + row * beats, beats, command)
        marker = not rows or self.bench.rng.randrange(2)
        sent = [{"row": row, "valid": 1, "last": 0} for row in rows]
        sent += [{"row": self.bench.rng.getrandbits(13), "valid": 0}] if marker else []
        sent[-1]["last"] = 1
        self.rows.send(sent)

    def send_kv(self, base, beats):
        self.kv_side.waiting.append({"address": base, "beats": beats})
        addresses = [POINTER + (base + k) * ENGINE.beat_bytes for k in range(beats)]
        self.expected_kv += addresses
        self.kv_addresses.update(addresses)
        self.traffic[Traffic.KV] += beats
        self.kv_runs += 1

    def random_step(self):
        """One random command; every now and then KV work, and a fence for it. KV is stored above beat 2^20,
        weights below."""
        rng = self.bench.rng
        if rng.random() < 0.25:
            self.send_kv((1 << 20) + 1000 * self.kv_runs + rng.randrange(300), rng.choice([1, 7, 16, 100]))
        if len(self.kv_side.fences) < self.kv_runs and rng.random() < 0.3:
            return self.send({"work": Work.FENCE})
        work = rng.choice([Work.MATRIX] * 4 + [Work.HEAD, Work.DIRECT_READ])
        log_groups = rng.randrange(4)
        command = {
            "work": work,
            "stream": rng.randrange(2) if work in (Work.MATRIX, Work.HEAD) else 1,
            "io": rng.randrange(2) if work == Work.DIRECT_READ else 0,
            "base": rng.randrange(100_000),
            "words": rng.randrange(1, 6),
            "beats": 1 if work == Work.HEAD else rng.choice([1, 2, 3, 9, 16, 33]),
            "log_groups": log_groups,
            "columns": rng.choice([1, 2, 3, 6]),
            "count": rng.randrange(1, 4),
            "channel": rng.choice([INDEX, INDEX, 0]),
            "traffic": rng.choice([t for t in range(16) if t != Traffic.KV]),
        }
        density = rng.choice([0, 0.1, 0.5, 1])
        rows = [row for row in range(command["words"] * ENGINE.lanes >> log_groups) if rng.random() < density]
        return self.send(command, rows)

    async def run(self, limit):
        while len(self.kv_side.fences) < self.kv_runs:
            self.send({"work": Work.FENCE})
        await self.bench.until(
            lambda: (
                self.beats.count >= len(self.expected)
                and self.kv.count >= len(self.expected_kv)
                and not self.commands.queue
                and not self.rows.queue
            ),
            limit,
        )
        await self.bench.step(10)  # commands that read nothing
        await self.bench.finish()
        assert self.beats.received == [beat_at(address, ENGINE.beat_bytes) for address in self.expected]
        assert self.kv.received == [beat_at(address, ENGINE.beat_bytes) for address in self.expected_kv]
        assert int(self.dut.quiet.value) and not int(self.dut.fault.value)

    async def counts(self):
        """All traffic counters."""
        values = {}
        for kind in range(16):
            self.dut.count_index.value = kind
            await self.bench.step()
            values[kind] = int(self.dut.count.value)
        return values


__all__ = ["ENGINE", "INDEX", "IO_POINTER", "PATTERNS", "POINTER", "FetchBench", "Work"]
