"""From real scales to the integers of a package. Used when a model is made, never when it runs."""

import math

import numpy as np

from symlight.base.errors import UserError

from .config import MAX_SHIFT, MULTIPLIER_BITS, NORM_FRAC, PRE_FRAC, RESIDUAL_FRAC, ModelShape

GELU_FLOOR = 0.17  # GELU is nowhere below -0.16997: with smaller values dropped, no negative input gives one


def multiplier_shift(scale) -> tuple[np.ndarray, np.ndarray]:
    """(M int16, sh uint8), M / 2^sh nearest to each scale; M in [2^14, 2^15 - 1] where the shift allows it.

    A scale too small for shift 47 loses bits of M instead, down to 0.
    """
    scale = np.asarray(scale, np.float64)
    if not np.isfinite(scale).all() or (scale < 0).any():
        raise UserError("a quantisation scale is negative or not a number")
    _, exponent = np.frexp(np.where(scale > 0, scale, 2.0**-40))
    shift = np.clip(MULTIPLIER_BITS - exponent, 1, MAX_SHIFT)
    multiplier = np.rint(np.ldexp(scale, shift)).astype(np.int64)
    # 32767.6 rounds to 2^15: one shift less holds it
    over = (multiplier > (1 << MULTIPLIER_BITS) - 1) & (shift > 1)
    shift = shift - over
    multiplier = np.minimum(
        np.where(over, np.rint(np.ldexp(scale, shift)), multiplier), (1 << MULTIPLIER_BITS) - 1
    )
    return multiplier.astype(np.int16), shift.astype(np.uint8)


def event_scalars(threshold: int, scale: float) -> np.ndarray:
    """(T, M, sh) of a one-scale event site."""
    multiplier, shift = multiplier_shift(scale)
    return np.array([min(max(threshold, 1), 32767), multiplier, shift], np.int32)


def norm_tensors(gamma, beta, width: int, eps: float) -> dict[str, np.ndarray]:
    """gamma, beta, scalars of a layer normalisation; sqrt(width) goes into gamma."""
    gamma = np.asarray(gamma, np.float64) * math.sqrt(width) * 2.0 ** (RESIDUAL_FRAC - NORM_FRAC)
    largest = max(float(np.abs(gamma).max()), 2.0**-20)
    shift = min(31, max(1, math.floor(math.log2(32767 / largest))))
    return {
        "gamma": np.clip(np.rint(gamma * 2.0**shift), -32768, 32767).astype(np.int16),
        "beta": np.clip(np.rint(np.asarray(beta, np.float64) * 2**RESIDUAL_FRAC), -32768, 32767).astype(
            np.int16
        ),
        "scalars": np.array([shift, max(16, round(width * eps * 2 ** (2 * PRE_FRAC)))], np.int32),
    }


def mix_gains(gate: float, frac: int = 6) -> np.ndarray:
    """(G_o, G_h, sh_m): m = gate * o + (1 - gate) * h with `frac` fraction bits; o is Q.6, h Q3.12."""
    shift = 15 + 6 - frac
    return np.array(
        [
            min(32767, round(gate * 2.0 ** (shift + frac - 6))),
            round((1 - gate) * 2.0 ** (shift + frac - 12)),
            shift,
        ],
        np.int32,
    )


def alibi_slopes(shape: ModelShape, score_frac: int) -> np.ndarray:
    """Slopes 2^(-8 (h + 1) / heads), times sqrt(head width), with score_frac fraction bits."""
    exponents = -8.0 * np.arange(1, shape.heads + 1) / shape.heads
    slopes = math.sqrt(shape.head_width) * 2.0 ** (score_frac + exponents)
    return np.minimum(np.rint(slopes), 1023).astype(np.int16)


def gelu_values(input_frac: int, output_scale: float, floor: float = 0) -> np.ndarray:
    """int8 table of GELU((i - 128) / 2^input_frac) / output_scale, 0 where |GELU| < floor; i = 0 .. 255."""
    x = np.arange(-128, 128) / 2.0**input_frac
    exact = np.array([0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x])
    exact = np.where(np.abs(exact) < floor, 0, exact)
    return np.clip(np.rint(exact / output_scale), -127, 127).astype(np.int8)
