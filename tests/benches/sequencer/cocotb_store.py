"""Bench of hw.sequencer.store: the operation table and the barrier."""

import cocotb

from symlight.hw.sequencer.store import Barrier, OperationTable
from tests.benches.bench import Agent, Bench, parameters
from tests.benches.sequencer.sequencer_bench import ENGINE, IDLE, LIMIT, Ports, Strobes, plain, tiny

CHANNELS = ENGINE.channels


class Reader(Agent):
    """Reads random entries over one port; compares with the memory as it was when the index was there."""

    def __init__(self, bench, ports, name, written):
        super().__init__(bench)
        self.ports, self.name, self.written = ports, name, written
        self.due = []

    def idle(self):
        self.due = []

    def drive(self):
        # An index may stay for long, as the sequencer's do.
        if not self.due or self.bench.rng.random() < 0.5:
            self.ports.set(**{f"index_{self.name}": self.bench.rng.randrange(ENGINE.table_entries)})

    def sample(self):
        self.due.append(self.written.get(self.ports.get(f"index_{self.name}")))
        if len(self.due) > OperationTable.LATENCY:
            expected = self.due.pop(0)
            if expected is not None:
                got = int(self.ports.handle(f"entry_{self.name}").value)
                assert got == expected, f"entry_{self.name} is {got:#x}, expected {expected:#x}"
                self.count += 1


class Writer(Strobes):
    """Writes entries and keeps what the memory holds."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.written = {}

    def sample(self):
        super().sample()
        # Runs after the readers: a read in the cycle of a write sees the old entry.
        if self.driven is not None:
            self.written[self.driven["write_index"]] = self.driven["write_entry"].as_bits()


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def table(dut, idle):
    bench = Bench(dut)
    ports = Ports(dut, OperationTable(ENGINE), "table")
    written = {}
    readers = [Reader(bench, ports, name, written) for name in "ab"]
    writer = Writer(bench, ports, "write_valid", ("write_index", "write_entry"), idle=idle)
    writer.written = written
    entries = tiny(ENGINE)[3]
    assert len({plain(entry)["task"] for entry in entries}) == 10
    await bench.reset()
    indices = [*range(ENGINE.table_entries), *bench.rng.choices(range(ENGINE.table_entries), k=200)]
    writer.send([{"write_index": i, "write_entry": bench.rng.choice(entries)} for i in indices])
    await bench.until(lambda: not writer.queue, limit=6000)
    await bench.step(100)
    assert len(written) == ENGINE.table_entries
    await bench.reset()
    await bench.step(50)  # a reset of the readers leaves the memory alone
    assert all(reader.count > 200 for reader in readers) and writer.count == len(indices)


class Channels(Agent):
    """Channels that run ahead of each other, and a sequencer that consumes; mirrors `ready` exactly."""

    LEAD = Barrier.LEAD + parameters().get("lead", 0)  # how far a channel runs ahead

    def __init__(self, bench, ports, rounds, hurry):
        super().__init__(bench)
        self.ports, self.hurry = ports, hurry
        self.left = [rounds] * CHANNELS
        self.counts, self.ready, self.pulses = [0] * CHANNELS, False, [0] * CHANNELS
        self.consume, self.rest = 0, 0

    def __str__(self):
        return f"left {self.left}, counts {self.counts}"

    def idle(self):
        self.ports.set(pulses=0, consume=0)

    def drive(self):
        rng = self.bench.rng
        self.rest = max(0, self.rest - 1)
        self.consume = int(self.ready and not self.rest and rng.random() < self.hurry)
        if self.consume:
            self.rest = 3
        self.pulses = [
            int(left > 0 and count - self.consume < self.LEAD and rng.random() < 0.3)
            for left, count in zip(self.left, self.counts, strict=True)
        ]
        self.ports.set(pulses=sum(bit << k for k, bit in enumerate(self.pulses)), consume=self.consume)

    def sample(self):
        assert self.ports.get("ready") == self.ready, f"ready is not {self.ready} with counts {self.counts}"
        self.ready = all(self.counts)
        for k, bit in enumerate(self.pulses):
            self.counts[k] += bit - self.consume
            self.left[k] -= bit
        assert min(self.counts) >= 0
        self.count += self.consume

    def check_empty(self):
        assert not any(self.left) and not any(self.counts), str(self)


@cocotb.test(**LIMIT)
@cocotb.parametrize(hurry=[1.0, 0.5, 0.05])
async def barrier(dut, hurry):
    bench = Bench(dut)
    channels = Channels(bench, Ports(dut, Barrier(CHANNELS), "barrier"), 60, hurry)
    await bench.reset()
    await bench.until(lambda: channels.count == 60, limit=6000)
    await bench.finish()


@cocotb.test(**LIMIT)
async def one_slow_channel(dut):
    """All but one have arrived many times: not ready until the last one has."""
    bench = Bench(dut)
    ports = Ports(dut, Barrier(CHANNELS), "barrier")
    for slow in range(CHANNELS):
        await bench.reset()
        ports.set(consume=0, pulses=((1 << CHANNELS) - 1) & ~(1 << slow))
        await bench.step(Barrier.LEAD)
        ports.set(pulses=0)
        await bench.step(5)
        assert ports.get("ready") == 0
        ports.set(pulses=1 << slow)
        await bench.step(1)
        ports.set(pulses=0)
        await bench.step(1)
        assert ports.get("ready") == 1
