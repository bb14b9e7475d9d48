"""Bench of hw.vector.fusion."""

import cocotb
import numpy as np

from symlight.hw.vector.fusion import MixFusion, Reciprocal
from symlight.model import ops
from tests.benches.bench import Bench
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, run

LANES = 4


def denominators(rng, count):
    """0, 1, powers of two and their neighbours, the largest, and random ones of every length."""
    powers = 1 << np.arange(24)
    special = np.concatenate([[0, 1, 2**24 - 1], powers, powers - 1, np.minimum(powers + 1, 2**24 - 1)])
    return np.concatenate([special, rng.integers(0, 2**24, count) >> rng.integers(0, 24, count)])


def reciprocal(den):
    """(24 - n, recip) with n and recip of `ops.divide`; the shift of 0 is free."""
    n = ops.bit_length(den)
    quotient = (np.int64(1) << (n + ops.RECIPROCAL_FRAC)) // np.maximum(den, 1)
    return np.where(den == 0, 31, ops.DEN_BITS - n), np.where(den == 0, 0, quotient)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def reciprocals(dut, idle):
    bench = Bench(dut)
    pipe = Pipe(bench, "reciprocal", Reciprocal(), idle)
    den = denominators(np.random.default_rng(bench.seed), 2000 if idle == "never" else 200)
    align, recip = reciprocal(den)
    assert recip.max() == 1 << 17
    pipe.send_all({"den": den}, {"align": align, "recip": recip})
    await run(bench, pipe)


def shift_of(choice, rng):
    return {"least": 1, "most": 47}.get(choice) or int(rng.integers(8, 22))


@cocotb.test(**LIMIT)
@cocotb.parametrize(
    idle=["never", "random"],
    gains=["random", "first", "second", "largest"],
    shift=["least", "fitting", "most"],
    threshold=[0, 1, 40, 127],
)
async def mix(dut, idle, gains, shift, threshold):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    gain_o, gain_h = {
        "random": rng.integers(0, 2**15, 2),
        "first": (2**14, 0),
        "second": (0, 2**14),
        "largest": (32767, 32767),
    }[gains]
    # A power of two as the only gain and shift 15 make every odd operand a tie.
    sh = 15 if shift == "fitting" and gains in ("first", "second") else shift_of(shift, rng)
    static = {"gain_o": gain_o, "gain_h": gain_h, "shift": sh, "threshold": threshold}
    pipe = Pipe(bench, "mix", MixFusion(LANES), idle, static=static)
    den = denominators(rng, 300)
    limit = 127 * den[:, None]
    num = np.clip(numbers(rng, 32, (len(den), LANES)), -limit, limit)
    # Quotients of every magnitude, the largest ones, and small ones for the int8 range of m.
    num = np.where(rng.random(num.shape) < 0.3, limit * rng.integers(-1, 2, num.shape), num)
    num = np.where(rng.random(num.shape) < 0.5, num // 64, num)
    h = numbers(rng, 16, num.shape)
    h = np.where(rng.random(num.shape) < 0.5, h >> 7, h)
    o = ops.divide(num, den[:, None])
    assert np.abs(o).max() == 127 * 64
    align, recip = reciprocal(den)
    words = {"num": num, "h": h, "align": align, "recip": recip}
    pipe.send_all(words, {"m": ops.mix(o, h, gain_o, gain_h, sh, threshold)})
    await run(bench, pipe)


@cocotb.test(**LIMIT)
async def near_ties(dut):
    """Quotients that are ties in exact arithmetic, over denominators of every kind, and their neighbours: the
    reciprocal is low by a little, so a tie over no power of two falls just short."""
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    static = {"gain_o": 2**14, "gain_h": 0, "shift": 14, "threshold": 0}  # m = o
    pipe = Pipe(bench, "mix", MixFusion(LANES), static=static)
    factor = np.concatenate([[3, 1], rng.integers(1, 2**17, 600) >> rng.integers(0, 17, 600)])
    den = 128 * np.maximum(factor, 1)
    odd = 2 * rng.integers(-60, 60, (len(den), LANES)) + 1
    odd[0] = [-1, 1, -3, 3]
    num = odd * (den // 128)[:, None] + rng.choice([0, 0, 0, -1, 1], odd.shape)
    num[0, 0] = -3
    assert (int(den[0]), int(num[0, 0]), int(ops.divide(-3, 384))) == (384, -3, 0)
    o = ops.divide(num, den[:, None])
    short = (128 * num == odd * den[:, None]) & (o != ops.rnd(odd, 1))
    assert short[odd < 0].sum() > 100 and short[odd > 0].sum() > 100, "too few ties fall short"
    align, recip = reciprocal(den)
    words = {"num": num, "h": np.zeros_like(num), "align": align, "recip": recip}
    pipe.send_all(words, {"m": ops.mix(o, 0 * o, *static.values())})
    await run(bench, pipe)
