"""Bench of hw.vector.requantise."""

import cocotb
import numpy as np

from symlight.hw.vector.requantise import Requantise
from symlight.model import ops
from tests.benches.bench import Bench
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, run, ties

LANES = 4


def words(rng, count: int):
    """(acc, multiplier, shift), each [count, LANES]: random, ties, and both ends of every range."""
    size = (count, LANES)
    acc, multiplier = numbers(rng, 32, size), numbers(rng, 15, size, signed=False)
    # Half of the shifts leave a result that fits or just does not.
    fitting = np.clip(
        [max(abs(int(p)).bit_length() - 17, 1) for p in (acc * multiplier).flat], 1, 47
    ).reshape(size)
    shift = np.where(
        rng.random(size) < 0.5, np.clip(fitting + rng.integers(-2, 3, size), 1, 47), rng.integers(1, 48, size)
    )
    acc[0], multiplier[0], shift[0] = [-(2**31), 2**31 - 1, -(2**31), 2**31 - 1], 32767, [1, 1, 47, 47]
    acc[1], multiplier[1], shift[1] = [-1, 1, 0, -1], [1, 1, 32767, 0], 1
    tie = ties(rng, size)
    half = rng.random(size) < 0.3
    return tuple(np.where(half, t, x) for t, x in zip(tie, (acc, multiplier, shift)))


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def equals_model(dut, idle):
    bench = Bench(dut)
    pipe = Pipe(bench, "requantise", Requantise(LANES), idle)
    acc, multiplier, shift = words(np.random.default_rng(bench.seed), 1000 if idle == "never" else 200)
    expected = ops.requantise(acc, multiplier, shift)
    pipe.send_all({"acc": acc, "multiplier": multiplier, "shift": shift}, {"y": expected})
    assert (expected == 131071).any() and (expected == -131072).any() and (np.abs(expected) < 1000).any()
    await run(bench, pipe)


@cocotb.test(**LIMIT)
async def all_shifts(dut):
    bench = Bench(dut)
    pipe = Pipe(bench, "requantise", Requantise(LANES))
    rng = np.random.default_rng(bench.seed)
    shift = np.repeat(np.arange(1, 48), 12)[:, None] + np.zeros(LANES, np.int64)
    acc, multiplier = rng.integers(-(2**31), 2**31, shift.shape), rng.integers(0, 2**15, shift.shape)
    pipe.send_all(
        {"acc": acc, "multiplier": multiplier, "shift": shift}, {"y": ops.requantise(acc, multiplier, shift)}
    )
    await run(bench, pipe)
