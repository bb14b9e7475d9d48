"""Bench of hw.vector.layernorm."""

import cocotb
import numpy as np

from symlight.hw.vector.layernorm import LayerNormNormalise, LayerNormStatistics
from symlight.model import ops
from tests.benches.bench import Bench
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, run

STATISTICS_LANES = 16
MAX_WORDS = 128
LANES = 4


def vectors(rng, width: int):
    """Vectors of every kind that width allows."""
    low, high = -(1 << 17), (1 << 17) - 1
    yield from (np.full(width, value) for value in (low, high, 0, 1, -1, 12345))
    yield np.where(np.arange(width) % 2, high, low)
    yield np.where(np.arange(width) == width - 1, low, high)
    yield np.where(np.arange(width) == 0, 1, 0)
    for scale in (0, 2, 5, 9, 12, 16, 17):
        yield rng.integers(-(1 << scale), 1 << scale, width)
    yield np.clip(rng.integers(-200, 201, width) + high - 100, low, high)  # large mean, small spread
    yield numbers(rng, 18, width)


def statistics_pipe(bench, width, epsilon, idle):
    static = {"width": width, "inv_width": ops.inv_width(width), "epsilon": epsilon}
    return Pipe(
        bench, "statistics", LayerNormStatistics(STATISTICS_LANES, MAX_WORDS), idle, static=static, hold=True
    )


def send_vector(pipe, vector, epsilon):
    """The words of a vector, padded with zeros; the last one carries the expectation."""
    mean, e, r = (int(x) for x in ops.layer_norm_stats(vector, epsilon))
    count = -(-len(vector) // STATISTICS_LANES)
    words = np.pad(vector, (0, count * STATISTICS_LANES - len(vector))).reshape(count, -1)
    for i, word in enumerate(words):
        last = i == count - 1
        pipe.send(
            {"i_first": i == 0, "i_last": last, "pre": word}, {"mean": mean, "e": e, "r": r} if last else None
        )


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, width=[2, 16, 60, 128, 768], epsilon=[16, 5000])
async def statistics(dut, idle, width, epsilon):
    if width == 768 and idle == "slow":
        width = 80  # the same in less time
    bench = Bench(dut)
    pipe = statistics_pipe(bench, width, epsilon, idle)
    for vector in vectors(np.random.default_rng(bench.seed), width):
        send_vector(pipe, vector, epsilon)
    await run(bench, pipe, restart=False)


@cocotb.test(**LIMIT)
@cocotb.parametrize(epsilon=[16, 2**31 - 1])
async def longest_vectors(dut, epsilon):
    bench = Bench(dut)
    pipe = statistics_pipe(bench, 2048, epsilon, "never")
    low, high = -(1 << 17), (1 << 17) - 1
    for vector in (np.full(2048, low), np.full(2048, high), np.where(np.arange(2048) % 2, high, low)):
        send_vector(pipe, vector, epsilon)
    await run(bench, pipe, restart=False)


@cocotb.test(**LIMIT)
async def reset_within_a_vector(dut):
    bench = Bench(dut)
    pipe = statistics_pipe(bench, 60, 16, "never")
    rng = np.random.default_rng(bench.seed)
    await bench.reset()
    send_vector(pipe, rng.integers(-1000, 1000, 60), 16)
    pipe.queue.pop()
    await bench.step(9)
    await bench.reset()
    pipe.forget()
    pipe.queue.clear()
    send_vector(pipe, rng.integers(-1000, 1000, 60), 16)
    await run(bench, pipe, restart=False)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts"], gamma_shift=[1, 12, 16, 31], scale=[0, 3, 9, 13, 17])
async def normalise(dut, idle, gamma_shift, scale):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed + 100 * scale + gamma_shift)
    width, epsilon = 60 * LANES, 16
    vector = np.clip(
        rng.integers(-(1 << scale), 1 << scale, width) + rng.integers(-1000, 1000), -(2**17), 2**17 - 1
    )
    if scale == 17:
        vector[:] = rng.choice([-(2**17), 2**17 - 1, 0], width)
    if scale == 3:
        vector[:] = 0
        vector[5] = 2**17 - 1  # one large element: the largest n
    gamma, beta = numbers(rng, 16, width), numbers(rng, 16, width)
    if gamma_shift == 12:
        gamma >>= 6
    mean, e, r = (int(x) for x in ops.layer_norm_stats(vector, epsilon))
    y = ops.layer_norm(vector, gamma, beta, gamma_shift, epsilon)
    pipe = Pipe(
        bench,
        "normalise",
        LayerNormNormalise(LANES),
        idle,
        static={
            "mean": mean,
            "e": e,
            "r": r,
            "gamma_shift": gamma_shift,
        },
    )
    words = {"pre": vector, "gamma": gamma, "beta": beta}
    pipe.send_all({k: v.reshape(-1, LANES) for k, v in words.items()}, {"y": y.reshape(-1, LANES)})
    await run(bench, pipe)


def reference(pre, mean, e, r, gamma, beta, gamma_shift):
    """The rest of `ops.layer_norm` for given statistics."""
    n = ops.sat(ops.rnd((pre - mean) * r, e - 1), ops.NORMALISED_BITS)
    return ops.sat(ops.rnd(n * gamma, gamma_shift) + beta, 16)


@cocotb.test(**LIMIT)
@cocotb.parametrize(e=list(range(2, 24)))
async def any_statistics(dut, e):
    """Scalars that no vector gives, too: both saturations, ties."""
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed + e)
    mean, r, gamma_shift = (
        int(numbers(rng, 18, 1)[0]),
        int(rng.choice([32768, 65535, 40001])),
        int(rng.integers(1, 32)),
    )
    size = (120, LANES)
    pre, gamma, beta = numbers(rng, 18, size), numbers(rng, 16, size), numbers(rng, 16, size)
    gamma = np.where(rng.random(size) < 0.2, 1 << max(0, min(14, gamma_shift - 2)), gamma)
    pipe = Pipe(
        bench,
        "normalise",
        LayerNormNormalise(LANES),
        static={
            "mean": mean,
            "e": e,
            "r": r,
            "gamma_shift": gamma_shift,
        },
    )
    y = reference(pre, mean, e, r, gamma, beta, gamma_shift)
    pipe.send_all({"pre": pre, "gamma": gamma, "beta": beta}, {"y": y})
    await run(bench, pipe)
