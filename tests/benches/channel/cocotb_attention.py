"""Bench of AttentionEngine: several layers and passes with a model of the loader and of the memory behind
it."""

import random

import cocotb
import numpy as np

from symlight.hw.channel.attention import AttentionEngine
from symlight.hw.channel.ring.read_scheduler import AHEAD
from symlight.hw.channel.ring.score import Score
from symlight.hw.types import BroadcastKind
from symlight.sim.estimate.walk import walk_cycles
from tests.benches.channel.attention_bench import LIMIT, PLACES, Driver


@cocotb.test(**LIMIT)
@cocotb.parametrize(place=list(PLACES), idle=["never", "random"])
async def from_the_first_token(dut, place, idle):
    driver = Driver(dut, place, idle=idle, mode=random.Random(cocotb.RANDOM_SEED).choice(["valid", "full"]))
    slots = driver.ring.shape.slots
    await driver.run([*range(4), slots - 1, slots, slots + 1])


@cocotb.test(**LIMIT)
@cocotb.parametrize(mode=["valid", "full"], idle=["bursts", "slow"])
async def slow_loader(dut, mode, idle):
    driver = Driver(dut, "grouped", mode=mode, idle=idle)
    await driver.run([2, 3, 30, 31])


@cocotb.test(**LIMIT)
@cocotb.parametrize(place=["grouped", "uneven columns"])
async def last_positions(dut, place):
    """Distances and slopes as large as they get."""
    driver = Driver(dut, place)
    driver.ring.slopes[:] = 1023
    await driver.run(range((1 << 20) - 6, 1 << 20))


@cocotb.test(**LIMIT)
async def extreme_sums(dut):
    """All scores at the limit, all products of the largest magnitude."""
    driver = Driver(dut, "one group, one-beat heads")
    ring = driver.ring
    ring.slopes[:], ring.frac = 0, 6
    ring.vectors = lambda *size: np.where(np.arange(size[-1]) % 2, 127, -127) * np.ones(size, int)
    ring.truth[:] = ring.vectors(*ring.truth.shape)
    for layer in range(2):
        ring.fill(layer)
    await driver.run([20])
    assert driver.drain.answers[-1][2][:4] == [8 * 32767] * 4


@cocotb.test(**LIMIT)
@cocotb.parametrize(place=list(PLACES), where=["first", "middle", "last"])
async def one_k_and_one_v_a_cycle(dut, place, where):
    """With all slots there, a k beat and a v beat are read in every cycle, the older slots' while the
    token's own k and v are broadcast. The token's own slot is anywhere in the ring: first, last, in the
    middle."""
    driver = Driver(dut, place)
    ring = driver.ring
    await driver.setup()
    command = ring.command(0, position(ring, where))
    driver.send_command(command)
    await driver.bench.until(lambda: not driver.loader.todo and not driver.loader.commands, limit=1000)
    await driver.bench.step(10)
    await driver.operation(command)
    mine = ring.mine(command["attend"])
    first, last = (driver.cast.cycles[place] for place in (driver.first_key, driver.last_value))
    held = (len(mine) - 1) * ring.heads if command["slot"] in mine else None
    cycles, engine = driver.done.cycles[0] - first, AttentionEngine(engine=driver.engine)
    reads = walk_cycles(len(mine) * ring.heads, ring.words, engine.WEIGHT_LATENCY, AHEAD, held, last - first)
    beats = len(mine) * ring.half
    dut._log.info("%s: %d k beats and %d v beats in %d cycles", place, beats, beats, cycles)
    assert cycles == engine.FIRST_READ + max(reads, last - first) - 1 + engine.END_LATENCY, (
        f"{beats} beats of k in {cycles} cycles"
    )


def position(ring, where):
    """A position after a full ring whose slot is the `where` one of the channel's that wrap."""
    slots = [slot for slot in ring.mine(ring.shape.slots) if slot >= ring.shape.anchors]
    wanted = {"first": slots[0], "middle": slots[len(slots) // 2], "last": slots[-1]}[where]
    return next(p for p in range(2 * ring.shape.slots, 4 * ring.shape.slots) if ring.shape.slot(p) == wanted)


@cocotb.test(**LIMIT)
async def one_slot_latency(dut):
    """The shortest operation: one beat of k, one of v."""
    driver = Driver(dut, "one layer, one head")
    await driver.setup()
    command = driver.ring.command(0, 0)
    driver.send_command(command)
    await driver.bench.step(10)
    await driver.operation(command)
    score = Score(engine=driver.engine).LATENCY
    read, product, end = 2, 4, 2  # start to first read; read to product; last read to `att_done`
    assert driver.done.cycles[0] - driver.cast.cycles[driver.last_value] == read + product + score + 1 + end


@cocotb.test(**LIMIT)
async def not_active(dut):
    """A channel without a share completes commands without loads, with zeros."""
    driver = Driver(dut, "grouped")
    ring = driver.ring
    ring.active = False
    ring.group, ring.column = 5, 1
    await driver.setup()
    for position in (0, 1, 17):
        command = ring.command(0, position)
        driver.send_command(command)
        await driver.bench.step(10)
        await driver.operation(command)
    assert not driver.writes.count and not driver.loader.count
    assert driver.done.cycles[-1] - driver.cast.cycles[-1] <= 4
    await driver.bench.finish()


@cocotb.test(**LIMIT)
async def reset_forgets(dut):
    """A reset during attention, with loads on their way, leaves nothing over."""
    driver = Driver(dut, "grouped")
    ring = driver.ring
    await driver.setup()
    first, second = ring.command(0, 40), ring.command(1, 40)
    driver.send_command(first)
    driver.send_command(second)
    await driver.bench.step(20)
    driver.cast.send(
        [{"kind": BroadcastKind.KEY, "index": 0}, {"kind": BroadcastKind.VALUE, "last": 1, "index": 7}]
    )
    await driver.bench.step(driver.bench.rng.randrange(5, 40))
    agents = Driver(dut, "grouped", idle="rare")
    await agents.run([5, 6, 23])


@cocotb.test(**LIMIT)
@cocotb.parametrize(place=["grouped", "one group, one-beat heads"], idle=["never", "random"])
async def resident(dut, place, idle):
    driver = Driver(dut, place, mode="resident", idle=idle)
    await driver.run(range(driver.ring.shape.slots + 5))


@cocotb.test(**LIMIT)
@cocotb.parametrize(place=["grouped", "uneven columns"], idle=["never", "bursts"])
async def resident_restored(dut, place, idle):
    """The pass after a restore loads the slots that are populated, over what an earlier session left; the
    others load nothing."""
    driver = Driver(dut, place, mode="resident", idle=idle)
    slots = driver.ring.shape.slots
    await driver.run(range(slots))
    for first in (1, slots - 1, slots + 3):
        again = Driver(dut, place, mode="resident", idle=idle)
        again.ring.restored = first
        await again.run(range(first, first + 3))
