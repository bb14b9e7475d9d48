"""The steps of SymbolicLight V1 on arrays of floating-point numbers (docs/v1.md, "Meaning").

T is a number of positions, S of keys, D the width, H heads of d elements. Arrays keep their type (float32 or
float64); spikes are boolean.
"""

import math

import numpy as np

from .config import MEMBRANE_BOUND, NORM_EPSILON, V1Shape

_erf = np.frompyfunc(math.erf, 1, 1)


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """LayerNorm of the last axis, with the biased variance."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(NORM_EPSILON)) * gamma + beta


def lif(x: np.ndarray, membrane: np.ndarray, shape: V1Shape) -> tuple[np.ndarray, np.ndarray]:
    """(spikes [T, D], membrane [D] afterwards) of inputs x [T, D]: leak, add, clamp, compare, reset."""
    leak, threshold = x.dtype.type(shape.leak), x.dtype.type(shape.threshold)
    spikes = np.empty(x.shape, bool)
    for t, row in enumerate(x):
        membrane = np.clip(membrane * leak + row, -MEMBRANE_BOUND, MEMBRANE_BOUND)
        spikes[t] = membrane >= threshold
        membrane = np.where(spikes[t], 0, membrane)  # also in the order "clamp, compare, reset"
    return spikes, membrane.astype(x.dtype)


def angles(positions: np.ndarray, inv_freq: np.ndarray) -> np.ndarray:
    """Angles [T, d/2], float64 of float32 products, as in the public definition: at large positions the
    rounding of the product is a part of the meaning."""
    return (positions.astype(np.float32)[:, None] * inv_freq.astype(np.float32)).astype(np.float64)


def rotary(x: np.ndarray, positions: np.ndarray, inv_freq: np.ndarray) -> np.ndarray:
    """x [T, H, d] turned by its position: elements i and i + d/2 by `angles`."""
    turns = angles(positions, inv_freq)
    cos, sin = (f(turns).astype(x.dtype)[:, None, :] for f in (np.cos, np.sin))
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def visible(query: np.ndarray, key: np.ndarray, shape: V1Shape) -> np.ndarray:
    """[T, S]: may a query at position query[t] see the key at position key[s]?"""
    distance = query[:, None] - key
    return (distance >= 0) & ((distance <= shape.window) | (key < shape.anchors))


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray, active: np.ndarray, shape: V1Shape
) -> np.ndarray:
    """Softmax attention [T, D] of q [T, H, d] over k and v [S, H, d].

    `mask` [T, S] selects the keys of each query: visible, and with a spike at their own position. A query
    without a spike at its position (`active` [T] is false), or without any key, gets zeros.
    """
    scores = np.einsum("thd,shd->hts", q, k) * q.dtype.type(shape.head_width**-0.5)
    scores = np.where(mask, scores, -np.inf)
    some = np.asarray(mask.any(axis=1))
    with np.errstate(invalid="ignore"):  # a row without keys is replaced by zeros below
        weights = np.exp(scores - scores.max(axis=2, keepdims=True, initial=-np.inf))
        weights = np.where(some[None, :, None], weights / weights.sum(axis=2, keepdims=True), 0)
    output = np.einsum("hts,shd->thd", weights.astype(q.dtype), v)
    return (output * active[:, None, None]).reshape(len(q), shape.width)


def decay(z: np.ndarray, state: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """States [T, H, d] of inputs z [T, H, d] from `state` [H, d]: h = alpha h + (1 - alpha) z a head."""
    states = np.empty_like(z)
    alpha = alpha[:, None]
    for t, row in enumerate(z):
        state = states[t] = alpha * state + (1 - alpha) * row
    return states


def sigmoid(x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU with the exact error function."""
    erf = np.asarray(_erf(x / math.sqrt(2)))
    return (x * 0.5 * (1 + erf.astype(x.dtype))).astype(x.dtype)
