"""Bench of hw.channel.loader.Loader: which beats are read, where they are filed, and when a command may
start."""

import cocotb

from symlight.hw.channel.burst import RUN
from symlight.hw.config import Engine
from symlight.hw.types import KvCommand, RingShape, beat_layout, stage_layout
from tests.benches.bench import Agent, Bench, Sink, Source, bits, parameters, stalls
from tests.benches.channel.channel_bench import Watch

LIMIT = {"timeout_time": 2_000_000, "timeout_unit": "ns"}
PATTERNS = ["never", "random", "bursts", "slow"]
ENGINE = Engine(channels=8, lanes=16, kv_beats=2048)


class Quiet(Agent):
    """`writes_quiet`: high and low for random times; remembers the cycle before."""

    def __init__(self, bench, kind):
        super().__init__(bench)
        self.pattern, self.now = stalls(bench.rng, kind), 1

    def drive(self):
        self.now = int(not next(self.pattern))
        self.dut.writes_quiet.value = self.now


class Attention(Agent):
    """Finishes a command some cycles after all of its slots have arrived."""

    def __init__(self, bench, slots, kind):
        super().__init__(bench)
        self.slots, self.pattern, self.arrived = slots, stalls(bench.rng, kind), 0
        self.pulse, self.done = 0, 0

    def idle(self):
        self.dut.attended.value = 0

    def drive(self):
        need = sum(self.slots[: self.done + 1])
        ready = self.done < len(self.slots) and self.arrived >= need and self.started() > self.done
        self.pulse = int(ready and not next(self.pattern))
        self.dut.attended.value = self.pulse

    def sample(self):
        self.arrived += int(self.dut.loaded.value)
        self.done += self.pulse
        self.count += self.pulse


class LoaderBench:
    """Ports of the loader, and what a list of commands must lead to."""

    def __init__(self, dut, idle="never", stall="never", shape=(1, 2), group=1, active=1):
        assert parameters()["lanes"] == ENGINE.lanes
        self.bench = bench = Bench(dut)
        self.groups, self.half, self.group, self.active = 1 << shape[0], shape[1], group, active
        dut.ring.value = bits(RingShape, {"log_groups": shape[0]})
        dut.half.value, dut.group.value, dut.active.value = shape[1], group, active
        self.commands = Source(bench, "commands", KvCommand, idle=idle)
        self.runs = Sink(bench, "runs", RUN, stall=stall)
        self.beats = Source(bench, "beats", beat_layout(ENGINE), idle=idle)
        self.arrivals = Sink(bench, "arrivals", stage_layout(ENGINE), stall=stall)
        self.quiet = Quiet(bench, stall)
        self.slots, self.expected_runs, self.expected = [], [], []
        self.attention = Attention(bench, self.slots, idle)
        self.issued = Watch(bench, "issued", event=self._check_start)
        self.attention.started = lambda: self.issued.count
        self.loaded = Watch(bench, "loaded")

    def _check_start(self):
        most = self.attention.done + 2 + self.attention.pulse
        assert self.issued.count <= most, "a third command started before the first was attended"

    def send(self, command):
        command = {"base": 0, "stage": 0} | command
        slots = [s for s in range(command["load"]) if s % self.groups == self.group] if self.active else []
        self.commands.send([command])
        self.slots.append(len(slots))
        if slots:
            self.expected_runs.append({"address": command["base"], "beats": len(slots) * 2 * self.half})
        beats = [self.bench.rng.randbytes(ENGINE.lanes) for _ in range(len(slots) * 2 * self.half)]
        self.beats.send(list(beat) for beat in beats)
        for k, beat in enumerate(beats):
            local, word = divmod(k, 2 * self.half)  # k beats, then v beats
            if slots[local] != command["slot"]:
                value, word = divmod(word, self.half)
                address = command["stage"] + local * self.half + word
                self.expected.append({"value": value, "address": address, "data": list(beat)})

    def random_command(self):
        rng = self.bench.rng
        load = rng.choice([0, 1, 2, 5, 40, rng.randrange(60)])
        return {
            "base": rng.randrange(1 << 23),
            "stage": rng.choice([0, 512]),
            "load": load,
            "attend": load,
            "slot": rng.randrange(max(1, load) + 1),
            "position": rng.randrange(1 << 20),
        }

    async def run(self, limit):
        await self.bench.until(lambda: self.attention.done == len(self.slots), limit)
        await self.bench.finish()
        assert self.runs.received == self.expected_runs
        assert self.arrivals.received == self.expected
        assert self.loaded.count == sum(self.slots) and self.issued.count == len(self.slots)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=PATTERNS, stall=PATTERNS)
async def files_every_beat(dut, idle, stall):
    shape = {"never": (0, 1), "random": (1, 4), "bursts": (3, 3), "slow": (2, 2)}[idle]
    tb = LoaderBench(dut, idle, stall, shape=shape, group=(1 << shape[0]) - 1)
    await tb.bench.reset()
    for _ in range(12):
        tb.send(tb.random_command())
    await tb.run(limit=60_000)


@cocotb.test(**LIMIT)
async def takes_no_part(dut):
    tb = LoaderBench(dut, group=3, active=0)
    await tb.bench.reset()
    for _ in range(5):
        tb.send(tb.random_command())
    await tb.run(limit=200)
    assert not tb.runs.received


@cocotb.test(**LIMIT)
async def every_slot_and_group(dut):
    """All small numbers of slots in all groups, with the current slot everywhere."""
    for group in range(4):
        tb = LoaderBench(dut, shape=(2, 2), group=group)
        await tb.bench.reset()
        for load in range(7):
            for slot in (0, load // 2, load):
                tb.send({"base": 64 * load, "stage": 16, "load": load, "slot": slot})
        await tb.run(limit=2000)
        tb.bench.agents.clear()


@cocotb.test(**LIMIT)
async def one_beat_a_cycle(dut):
    tb = LoaderBench(dut, shape=(0, 2), group=0)
    await tb.bench.reset()
    for _ in range(2):
        tb.send({"load": 10, "slot": 10})
    await tb.run(limit=200)
    cycles = tb.arrivals.cycles
    assert cycles == list(range(cycles[0], cycles[0] + 80))


@cocotb.test(**LIMIT)
async def waits_for_writes(dut):
    """No command starts while a write is outstanding: it could read a slot that is not in memory yet."""
    tb = LoaderBench(dut)
    await tb.bench.reset()
    tb.bench.agents.remove(tb.quiet)
    dut.writes_quiet.value = 0
    tb.send({"load": 8, "slot": 8})
    await tb.bench.step(40)
    assert not tb.runs.received and not tb.issued.count
    tb.bench.agents.append(tb.quiet)
    await tb.run(limit=200)
