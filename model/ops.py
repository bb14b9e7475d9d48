"""The arithmetic of the integer model, one pure function an operation (specification: docs/arithmetic.md).

Everything is an integer: inputs of any integer dtype, int64 inside, int64 out. Vectors lie along the last
axis and leading axes are batches, so one function serves a token and a whole sequence. "Qa.b" is a two's
complement number whose unit is 2^-b. Hardware benches compare against these very functions.
"""

import math
from functools import cache

import numpy as np

from .config import OUTPUT_FRAC, PRE_BITS, SCORE_LIMIT, ModelShape, Numerics

REQUANTISED_BITS = 18  # width of every requantised value
NORMALISED_BITS = 19  # width of a normalised element before gamma
RECIPROCAL_FRAC = 16  # recip = 2^(n + 16) / den
DEN_BITS = 24  # width of a sum of attention weights


# ---- primitives ----------------------------------------------------------------------------------


def rnd(x, s):
    """x / 2^s, rounded half away from zero; s >= 1, a number or an array that broadcasts."""
    x = np.asarray(x, np.int64)
    half = 1 << (s - 1) if isinstance(s, int) else np.left_shift(1, np.subtract(s, 1, dtype=np.int64))
    return (x + half + (x >> 63)) >> s  # x >> 63 is -(x < 0)


def sat(x, bits: int):
    """Clamp to the signed range of `bits` bits."""
    return np.maximum(np.minimum(x, (1 << (bits - 1)) - 1), -(1 << (bits - 1)))


def sat127(x):
    """Clamp to [-127, 127]: int8 events and activations are symmetric."""
    return np.maximum(np.minimum(x, 127), -127)


def requantise(acc, multiplier, shift):
    """acc * multiplier / 2^shift, rounded, sat to 18 bits. |acc| < 2^27, multiplier 0..32767, shift 1..47."""
    return sat(rnd(np.multiply(acc, multiplier, dtype=np.int64), shift), REQUANTISED_BITS)


def event(acc, threshold, multiplier, shift):
    """Signed integer event in [-127, 127]: 0 where |acc| < threshold, else the requantised value."""
    return sat127(requantise(acc, multiplier, shift)) * (np.abs(acc, dtype=np.int64) >= threshold)


def step(x):
    """H(x): 1 where x >= 0, else 0."""
    return np.greater_equal(x, 0).astype(np.int64)


def bit_length(x):
    """Number of bits of each x >= 0 (0 for 0); exact below 2^53."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


def matvec(weight, x):
    """Exact product: weight [out, in] int8, x [..., in] -> [..., out]."""
    assert weight.shape[1] == x.shape[-1], (weight.shape, x.shape)
    return np.asarray(x, np.int64) @ weight.T.astype(np.int64)


# ---- input encoder and decay state ---------------------------------------------------------------


def lif_step(membrane, x, numerics: Numerics):
    """One step of the input neurons, all Q4.11: (new membrane, spikes 0/1)."""
    v = rnd(np.multiply(membrane, numerics.lif_leak, dtype=np.int64), 15) + x
    v = np.maximum(np.minimum(v, numerics.lif_clamp), -numerics.lif_clamp)
    spikes = step(v - numerics.lif_threshold)
    return np.where(spikes, 0, v), spikes


def decay_input(acc, multiplier, shift):
    """z = W_T s as Q3.12 in 16 bits."""
    return sat(requantise(acc, multiplier, shift), 16)


def decay_step(h, z, beta):
    """h + (z - h) * beta: h and z [..., D] Q3.12 in 16 bits, beta [H] Q0.16 unsigned, one a head."""
    h = np.asarray(h, np.int64)
    by_head = (*h.shape[:-1], len(beta), -1)
    moved = rnd((z - h).reshape(by_head) * np.asarray(beta, np.int64)[:, None], 16)
    return h + moved.reshape(h.shape)


# ---- attention -----------------------------------------------------------------------------------


def slot_distances(shape: ModelShape, position: int):
    """Distance of every populated ring slot to `position`, which has been written: [populated] int64."""
    slots = np.arange(shape.populated(position))
    local = np.mod(position - slots, shape.window + 1)
    return np.where(slots < shape.anchors, position - slots, local)


def attention_scores(q, k, distances, slopes, score_frac: int):
    """q [H, d], k [P, H, d] int8, distances [P], slopes [H] -> scores [H, P], score_frac fraction bits."""
    heads, width = q.shape
    assert k.shape == (len(distances), heads, width) and slopes.shape == (heads,), (
        q.shape,
        k.shape,
        slopes.shape,
    )
    # float32 is exact: |q . k| <= 256 * 127^2 < 2^24
    dots = np.matmul(k.transpose(1, 0, 2).astype(np.float32), q[:, :, None].astype(np.float32))[:, :, 0]
    return (dots.astype(np.int64) << score_frac) - slopes.astype(np.int64)[:, None] * distances


def attention_weights(scores):
    """Clamp to [0, 32767]; the sum of the weights normalises (ReLU-L1)."""
    return np.maximum(np.minimum(scores, SCORE_LIMIT), 0)


def divide(num, den):
    """num / den with 6 fraction bits, 0 where den is 0; 0 <= den < 2^24, |num| <= 127 * den."""
    den = np.asarray(den, np.int64)
    n = bit_length(den)
    recip = (np.int64(1) << (n + RECIPROCAL_FRAC)) // np.maximum(den, 1)
    scaled = (np.asarray(num, np.int64) << (DEN_BITS - n)) * recip
    return np.where(den == 0, 0, rnd(scaled, DEN_BITS + RECIPROCAL_FRAC - OUTPUT_FRAC))


def attention(q, ring_k, ring_v, position: int, shape: ModelShape, slopes, score_frac: int):
    """One token's attention over the populated slots of its ring.

    q [D] int8; ring_k, ring_v [slots, D] int8, already holding the current token -> o [D] int16 Q.6.
    """
    assert q.shape == (shape.width,) and ring_k.shape == ring_v.shape == (shape.slots, shape.width)
    populated = shape.populated(position)
    by_head = (populated, shape.heads, shape.head_width)
    scores = attention_scores(
        q.reshape(by_head[1:]),
        ring_k[:populated].reshape(by_head),
        slot_distances(shape, position),
        slopes,
        score_frac,
    )
    weights = attention_weights(scores)
    values = ring_v[:populated].reshape(by_head).transpose(1, 0, 2)
    # float64 is exact: |num| < 2^31
    num = np.matmul(weights[:, None, :].astype(np.float64), values.astype(np.float64))[:, 0, :].astype(
        np.int64
    )
    return divide(num, weights.sum(axis=1)[:, None]).reshape(shape.width)


def mix(o, h, gain_o: int, gain_h: int, shift: int, threshold: int = 0):
    """m = o * gain_o + h * gain_h over 2^shift, int8: the gate and the static scale are in the gains.

    0 where |m| < threshold, which is in [0, 127]: the input of W_O as an event site.
    """
    m = sat127(rnd(np.multiply(o, gain_o, dtype=np.int64) + np.multiply(h, gain_h, dtype=np.int64), shift))
    return m * (np.abs(m) >= threshold)


# ---- residual and layer normalisation ------------------------------------------------------------


def residual_sum(stream, branch):
    """2 * stream (Q4.11) + branch (requantised, Q5.12), saturated to 18 bits Q5.12."""
    return sat(np.multiply(stream, 2, dtype=np.int64) + branch, PRE_BITS)


@cache
def rsqrt_table():
    """RSQRT[i] = 2^16 / sqrt((i + 1/2) / 64), rounded, for i = 64 .. 255; the others are never read."""
    entries = [min(65535, (math.isqrt((1 << 41) // (2 * i + 1)) + 1) >> 1) for i in range(64, 256)]
    table = np.array([0] * 64 + entries, np.int64)
    table.flags.writeable = False
    return table


def inv_width(width: int) -> int:
    """2^32 / width, rounded."""
    return ((1 << 32) + width // 2) // width


def layer_norm_stats(pre, epsilon: int):
    """(mean, e, r) of pre [..., D]: mean, half the exponent of the squares' sum, reciprocal root."""
    pre = np.asarray(pre, np.int64)
    width = pre.shape[-1]
    total = pre.sum(axis=-1)
    squares = (pre * pre).sum(axis=-1)
    mean = rnd(total * inv_width(width), 32)
    spread = squares - mean * (2 * total - width * mean) + epsilon
    e = (bit_length(spread) - 1) >> 1
    return mean, e, rsqrt_table()[(spread << 6) >> (2 * e)]


def layer_norm(pre, gamma, beta, gamma_shift: int, epsilon: int):
    """Layer normalisation of pre [..., D] (18 bits) -> int16 Q4.11; sqrt(D) is folded into gamma."""
    assert pre.shape[-1:] == gamma.shape == beta.shape, (pre.shape, gamma.shape, beta.shape)
    mean, e, r = layer_norm_stats(pre, epsilon)
    scaled = (np.asarray(pre, np.int64) - mean[..., None]) * r[..., None]
    n = sat(rnd(scaled, (e - 1)[..., None]), NORMALISED_BITS)
    return sat(rnd(np.multiply(n, gamma, dtype=np.int64), gamma_shift) + beta, 16)


# ---- head ----------------------------------------------------------------------------------------


def head_input(c, multiplier: int, shift: int, threshold: int = 0):
    """Static requantisation of the last residual stream to int8; 0 where |c| < threshold."""
    a = sat127(rnd(np.multiply(c, multiplier, dtype=np.int64), shift))
    return a * (np.abs(c, dtype=np.int64) >= threshold)


def gelu_index(acc, multiplier, shift):
    """Signed table index in [-128, 127] from the accumulator of the prior net's first matrix."""
    return sat(requantise(acc, multiplier, shift), 8)


def gelu(index, table):
    """Look up int8 outputs; table [256], entry index + 128."""
    assert table.shape == (256,), table.shape
    return table[np.asarray(index, np.int64) + 128].astype(np.int64)


def head_logits(acc, scale):
    """Integer logits (48 bits): fused accumulators [..., V] times the scale of each vocabulary row [V]."""
    return np.multiply(acc, scale, dtype=np.int64)


def argmax(logits) -> int:
    """Token of the largest logit; ties go to the lowest id."""
    return int(np.argmax(logits))
