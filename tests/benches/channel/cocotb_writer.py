"""Bench of hw.channel.writer.Writer."""

import cocotb

from symlight.hw.channel.writer import DEPTH, Writer
from symlight.hw.config import Engine
from symlight.hw.types import write_layout
from tests.benches.bench import Bench, Source, parameters
from tests.benches.channel.memory_bench import WriteMemory, low_half

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
PATTERNS = ["never", "random", "bursts", "slow"]
POINTER, IO_POINTER = 0xFF_FFFF_F000, 0x1_2340_5000  # a sum carries through all bits
ENGINE = Engine(channels=2, lanes=16)


class WriterBench:
    def __init__(self, dut, idle="never", stall="never", delay=5):
        assert parameters()["lanes"] == ENGINE.lanes
        self.bench = Bench(dut)
        dut.pointer.value, dut.io_pointer.value, dut.abort.value = POINTER, IO_POINTER, 0
        self.source = Source(self.bench, "i", write_layout(ENGINE), idle=idle)
        self.memory = WriteMemory(self.bench, ENGINE.beat_bytes, stall=stall, delay=delay)
        self.expected = []

    def send(self, count):
        rng = self.bench.rng
        for _ in range(count):
            io, address = rng.randrange(2), rng.choice([0, 1, (1 << 24) - 1, rng.randrange(1 << 24)])
            data = rng.randbytes(ENGINE.beat_bytes)
            self.source.send([{"io": io, "address": address, "data": list(data)}])
            byte_address = (IO_POINTER if io else POINTER) + address * ENGINE.beat_bytes
            self.expected.append((byte_address, int.from_bytes(data, "little")))

    def quiet(self):
        return int(self.bench.dut.quiet.value)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=PATTERNS, stall=PATTERNS)
async def writes_in_order(dut, idle, stall):
    tb = WriterBench(dut, idle, stall, delay=3 if stall == "random" else 40)
    await tb.bench.reset()
    tb.send(120)
    await tb.bench.until(lambda: tb.memory.answered == 120, limit=20_000)
    await tb.bench.finish()
    assert tb.memory.written == tb.expected
    assert tb.quiet() and not int(dut.fault.value) and int(dut.level.value) == 0


@cocotb.test(**LIMIT)
async def a_write_every_other_cycle_after_latency(dut):
    tb = WriterBench(dut)
    await tb.bench.reset()
    tb.send(40)
    await tb.bench.until(lambda: tb.memory.answered == 40, limit=200)
    first = tb.source.cycles[0] + Writer.LATENCY
    assert tb.memory.cycles == list(range(first, first + 80, 2))


@cocotb.test(**LIMIT)
async def quiet_only_when_everything_is_answered(dut):
    tb = WriterBench(dut, stall="random", delay=20)
    await tb.bench.reset()
    assert tb.quiet()
    tb.send(30)
    await tb.bench.until(lambda: tb.source.count == 1, limit=10)
    while tb.memory.answered < 30:
        assert not tb.quiet(), "quiet with writes on the way"
        await tb.bench.step()
        assert tb.bench.cycle < 2000
    await tb.bench.finish()
    assert tb.quiet()


@cocotb.test(**LIMIT)
async def level_and_back_pressure(dut):
    tb = WriterBench(dut)
    await tb.bench.reset()
    tb.bench.agents.remove(tb.memory)  # a memory that accepts nothing
    tb.memory.idle()
    tb.send(DEPTH + 10)
    await tb.bench.step(DEPTH + 20)
    assert tb.source.count == DEPTH + 1 and int(dut.level.value) == DEPTH
    tb.bench.agents.append(tb.memory)
    await tb.bench.until(lambda: tb.memory.answered == DEPTH + 10, limit=500)
    await tb.bench.finish()
    assert tb.memory.written == tb.expected


@cocotb.test(**LIMIT)
async def fault_names_the_address(dut):
    tb = WriterBench(dut, delay=30)
    await tb.bench.reset()
    tb.send(20)
    faulty = tb.expected[7][0]
    tb.memory.faulty = {faulty, tb.expected[11][0]}
    expected = next(a for a, _ in tb.expected if a in tb.memory.faulty)
    await tb.bench.until(lambda: tb.memory.answered == 20, limit=500)
    await tb.bench.finish()
    assert int(dut.fault.value) and int(dut.fault_address.value) == low_half(expected)
    await tb.bench.reset()
    assert not int(dut.fault.value)


@cocotb.test(**LIMIT)
async def abort_drops_what_is_queued(dut):
    tb = WriterBench(dut, stall="slow", delay=30)
    await tb.bench.reset()
    tb.send(60)
    await tb.bench.step(100)
    dut.abort.value = 1
    await tb.bench.until(lambda: tb.quiet() and tb.source.count == 60, limit=2000)
    await tb.bench.finish()
    done = len(tb.memory.written)
    assert 0 < done < 60 and tb.memory.written == tb.expected[:done] and tb.memory.answered == done


@cocotb.test(**LIMIT)
@cocotb.parametrize(count=[1, 9])
async def a_fault_of_the_last_write_comes_with_quiet(dut, count):
    """Whoever waits for quiet must then see the fault of the very last write."""
    tb = WriterBench(dut, delay=20)
    await tb.bench.reset()
    tb.send(count)
    tb.memory.faulty = {tb.expected[-1][0]}
    await tb.bench.until(lambda: not tb.quiet(), limit=20)
    await tb.bench.until(tb.quiet, limit=500)
    assert int(dut.fault.value), "quiet before the fault of the last write"
    assert int(dut.fault_address.value) == low_half(next(a for a, _ in tb.expected if a in tb.memory.faulty))
    await tb.bench.finish()
