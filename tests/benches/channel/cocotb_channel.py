"""Bench of hw.channel.channel.Channel: passes of a small program against the integer model, with a memory
behind the port."""

import cocotb
import pytest

from tests.benches.bench import Agent
from tests.benches.channel.memory_bench import low_half
from tests.benches.channel.whole_channel_bench import IO_POINTER, POINTER, ChannelBench

LIMIT = {"timeout_time": 4_000_000, "timeout_unit": "ns"}


class Stopped(Exception):
    """The deadline is reached."""


class Deadline(Agent):
    """Ends what is going on at the start of `cycle`, before any other agent acts."""

    def __init__(self, bench, cycle):
        super().__init__(bench)
        self.cycle = cycle
        bench.agents.insert(0, bench.agents.pop())

    def drive(self):
        if self.bench.cycle >= self.cycle:
            raise Stopped


@cocotb.test(**LIMIT)
@cocotb.parametrize(memory=["never", "random", "bursts", "slow"])
async def passes(dut, memory):
    """Ring slots from memory and from the same pass, positions up to and beyond the wrap of the window."""
    places = ["grouped", "one group, one-beat heads", "many groups", "uneven columns"]
    number = ["never", "random", "bursts", "slow"].index(memory)
    tb = ChannelBench(
        dut,
        places[number],
        "full" if memory == "bursts" else "valid",
        memory,
        cast=memory,
        delay=5 + 25 * number,
    )
    await tb.setup()
    slots = tb.ring.shape.slots
    for position in (0, 1, slots - 1, slots, slots + 1):
        await tb.run_pass(position)
    await tb.finish()


@cocotb.test(**LIMIT)
async def new_slots_reach_the_memory(dut):
    """k and v of a token are read back by later passes; in the end the memory holds all of them."""
    tb = ChannelBench(dut, "grouped", memory="random", delay=40)
    await tb.setup()
    slots = tb.ring.shape.slots
    for position in tb.ring.mine(slots):  # in all others, this channel writes nothing
        await tb.run_pass(position)
    await tb.run_pass(slots - 1)
    await tb.finish()
    size = tb.engine.beat_bytes
    written = {
        POINTER + (tb.ring.address(layer, slot) + beat) * size: word
        for layer in range(tb.ring.shape.layers)
        for slot in tb.ring.mine(slots)
        for beat, word in enumerate(tb.ring.slot_words(layer, slot))
    }
    assert written and len(tb.writes.written) == len(written)
    assert dict(tb.writes.written) == written


@cocotb.test(**LIMIT)
async def slow_responses(dut):
    """A pass asks for the ring while the memory still owes the responses of the pass before: its slots must
    be the new ones."""
    tb = ChannelBench(dut, "grouped")
    tb.writes.delay = 1500
    await tb.setup()
    for position in (1, 2, 5, 6):
        await tb.run_pass(position)
    await tb.bench.until(lambda: int(dut.write_quiet.value), limit=2000)
    assert len(tb.writes.written) == 2 * tb.ring.shape.layers * 2 * tb.ring.half
    await tb.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(place=["one group, one-beat heads", "grouped"])
async def io_words(dut, place):
    """Channel 0 writes io words and reads them back; another one leaves them alone."""
    tb = ChannelBench(dut, place, memory="random", delay=30)
    await tb.setup()
    await tb.run_pass(3)
    before = len(tb.writes.written)
    words = await tb.write_io(24)
    assert dict(tb.writes.written[before:]) == (words if tb.index == 0 else {})
    for _ in range(4):
        tb.send_side(io=1)
    await tb.bench.until(lambda: len(tb.drains.side) == len(tb.side), limit=5000)
    await tb.run_pass(4)
    await tb.finish()


@cocotb.test(**LIMIT)
async def read_fault(dut):
    tb = ChannelBench(dut)
    await tb.setup()
    tb.reads.faulty = {IO_POINTER + address for address in range(0, 1 << 17, tb.engine.beat_bytes)}
    tb.send_side(io=1)
    await tb.bench.until(lambda: int(dut.fault.value), limit=500)
    await tb.bench.step(2)
    assert not int(dut.fault_write.value) and int(dut.fault_address.value) == low_half(tb.reads.bursts[0][0])


@cocotb.test(**LIMIT)
async def write_fault(dut):
    tb = ChannelBench(dut, "one group, one-beat heads")
    await tb.setup()
    tb.writes.faulty = {IO_POINTER + address for address in range(0, 1 << 17, tb.engine.beat_bytes)}
    (address,) = await tb.write_io(1)
    await tb.bench.step(3)
    assert (
        int(dut.fault.value)
        and int(dut.fault_write.value)
        and int(dut.fault_address.value) == low_half(address)
    )


@cocotb.test(**LIMIT)
@cocotb.parametrize(cycles=[60, 230, 400])
async def abort_then_reset_then_work(dut, cycles):
    """In the middle of a pass the channel falls quiet, and works from a reset on as if it were new."""
    tb = ChannelBench(dut, memory="random", delay=60)
    await tb.setup()
    deadline = Deadline(tb.bench, tb.bench.cycle + cycles)
    with pytest.raises(Stopped):
        await tb.run_pass(20)
    tb.bench.agents.remove(deadline)
    await tb.bench.until(lambda: tb.reads.pending and not int(dut.quiet.value), limit=200)
    # the sequencer side falls silent, the memory goes on
    for agent in (tb.commands, tb.kv, tb.casts, tb.drains):
        agent.idle()
        tb.bench.agents.remove(agent)
    dut.abort.value = 1
    await tb.bench.step(2)
    issued = len(tb.reads.bursts)
    await tb.bench.until(lambda: int(dut.quiet.value), limit=5000)
    await tb.bench.step(5)
    assert int(dut.quiet.value) and len(tb.reads.bursts) == issued and not tb.reads.pending
    assert not tb.writes.responses
    tb.bench.agents.clear()
    fresh = ChannelBench(dut, "many groups")
    await fresh.setup()
    for position in (9, 10):
        await fresh.run_pass(position)
    await fresh.finish()
