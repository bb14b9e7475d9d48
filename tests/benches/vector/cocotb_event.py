"""Bench of hw.vector.event."""

import cocotb
import numpy as np

from symlight.hw.vector.event import Eventise, PopCount, ScalarEvent, StepThreshold
from symlight.hw.vector.requantise import Requantise
from symlight.model import ops
from tests.benches.bench import Bench, parameters
from tests.benches.vector.cocotb_requantise import words
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, run, ties

LANES = 4


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def eventise(dut, idle):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    width = parameters().get("acc_bits", 32)
    component = Eventise(LANES, acc_bits=width)
    pipe = Pipe(bench, "eventise", component, idle, latency={"y_valid": Requantise.LATENCY})
    acc, multiplier, shift = words(rng, 600)
    acc = np.clip(acc, -(1 << width - 1), (1 << width - 1) - 1)
    # A third of the thresholds is met or missed by one.
    near = np.clip(np.abs(acc) + rng.integers(-1, 2, acc.shape), 1, 2**27 - 1)
    threshold = np.where(
        rng.random(acc.shape) < 0.3, near, np.maximum(numbers(rng, 27, acc.shape, signed=False), 1)
    )
    e = ops.event(acc, threshold, multiplier, shift)
    assert (e == 127).any() and (e == -127).any() and ((e == 0) & (acc != 0)).any()
    pipe.send_all(
        {"acc": acc, "threshold": threshold, "multiplier": multiplier, "shift": shift},
        {"e": e, "y_valid.y": ops.requantise(acc, multiplier, shift)},
    )
    await run(bench, pipe)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def scalar_event(dut, idle):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    pipe = Pipe(bench, "scalar", ScalarEvent(LANES), idle)
    size = (600, LANES)
    x = numbers(rng, 16, size)
    threshold = np.where(rng.random(600) < 0.3, 0, numbers(rng, 15, 600, signed=False))
    threshold = np.where(
        rng.random(600) < 0.3, np.clip(np.abs(x[:, 0]) + rng.integers(-1, 2, 600), 0, 2**15 - 1), threshold
    )
    multiplier, shift = (
        numbers(rng, 15, 600, signed=False),
        np.minimum(rng.integers(1, 48, 600), rng.integers(1, 48, 600)),
    )
    tie = ties(rng, 600, bits=16)
    half = rng.random(600) < 0.3
    x[:, 1] = np.where(half, tie[0], x[:, 1])
    multiplier, shift = np.where(half, tie[1], multiplier), np.where(half, tie[2], shift)
    e = ops.event(x, threshold[:, None], multiplier[:, None], shift[:, None])
    head = threshold == 0
    assert head.any() and (e[head] == ops.head_input(x, multiplier[:, None], shift[:, None])[head]).all()
    assert (e == 127).any() and (e == -127).any()
    pipe.send_all({"x": x, "threshold": threshold, "multiplier": multiplier, "shift": shift}, {"e": e})
    await run(bench, pipe)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def step_and_count(dut, idle):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    step = Pipe(bench, "step", StepThreshold(LANES), idle)
    acc = numbers(rng, 32, (400, LANES))
    near = np.clip(acc + rng.integers(-1, 2, acc.shape), -(2**31), 2**31 - 1)
    threshold = np.where(rng.random(acc.shape) < 0.5, near, numbers(rng, 32, acc.shape))
    bits = ops.step(acc - threshold)
    step.send_all({"acc": acc, "threshold": threshold}, {"bits": bits @ (1 << np.arange(LANES))})

    lanes = parameters()["count_lanes"]
    count = Pipe(bench, "count", PopCount(lanes), idle)
    word = numbers(rng, 8, (400, lanes)) * (rng.random((400, lanes)) < rng.random((400, 1)))
    word[0], word[1] = 0, -128
    count.send_all({"word": word}, {"count": np.count_nonzero(word, axis=1)})
    await run(bench, step, count)
