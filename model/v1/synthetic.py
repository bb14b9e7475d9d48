"""V1 tensors drawn at random, with the spike densities that are asked for. Nothing was trained: text means
nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from . import ops
from . import tensors as names
from .config import V1Shape

_CALIBRATION = 64  # positions on which the encoder's gain is fitted


@dataclass(frozen=True, kw_only=True)
class Densities:
    """Shares of spikes, 0..1.

    The defaults of encoder and blocks are those that the public 0.8B release reports of its checkpoint on
    eight prompts (sparsity 95.44 % and 93.77 %). It reports none of the feed-forward neurons: `ffn` is an
    assumption.
    """

    encoder: float = 0.0456
    block: float = 0.0623
    ffn: float = 0.0623


def tensors(shape: V1Shape, densities: Densities, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """All float32 tensors of a model by name, one at a time."""
    random = np.random.default_rng(seed)

    def normal(size: tuple[int, ...], deviation: float) -> np.ndarray:
        return random.standard_normal(size, np.float32) * np.float32(deviation)

    width = shape.width
    embedding = normal((shape.vocab, width), 0.02)
    yield names.EMBEDDING, embedding
    yield from _norm(names.ENCODER_NORM, shape, _encoder_gain(embedding, shape, densities.encoder))
    gain = _gain(densities.block, shape.threshold)  # a normalised element exceeds the threshold that often
    up = 1 / (NormalDist().inv_cdf(1 - densities.ffn) * gain * width**0.5) * shape.threshold
    for layer in range(shape.layers):
        sizes = names.block_matrices(shape)
        for name, (outputs, inputs) in sizes.items():
            deviation = up if name == names.UP else inputs**-0.5
            yield f"{names.block(layer, name)}.weight", normal((outputs, inputs), deviation)
        for norm in (names.TCAM_NORM, names.FFN_NORM):
            yield from _norm(names.block(layer, norm), shape, gain)
        yield names.block(layer, names.DECAY), random.uniform(0, 4, shape.heads).astype(np.float32)
        yield names.block(layer, names.GATE), random.uniform(-1, 1, 1).astype(np.float32)
    for name, (outputs, inputs) in names.head_matrices(shape).items():
        yield f"{name}.weight", normal((outputs, inputs), inputs**-0.5)
    yield names.INV_FREQ, inverse_frequencies(shape.head_width)
    yield names.PRIOR_WEIGHT, np.array([0.1], np.float32)


def inverse_frequencies(head_width: int, theta: float = 10000.0) -> np.ndarray:
    """Angles a position [head_width / 2], float32."""
    exponents = np.arange(0, head_width, 2, dtype=np.float32) / np.float32(head_width)
    return (1 / np.float32(theta) ** exponents).astype(np.float32)


def _norm(name: str, shape: V1Shape, gain: float) -> Iterator[tuple[str, np.ndarray]]:
    yield f"{name}.weight", np.full(shape.width, gain, np.float32)
    yield f"{name}.bias", np.zeros(shape.width, np.float32)


def _gain(density: float, threshold: float) -> float:
    """The deviation of a normal variable that exceeds `threshold` with probability `density`."""
    return threshold / NormalDist().inv_cdf(1 - density)


def _encoder_gain(embedding: np.ndarray, shape: V1Shape, density: float) -> float:
    """The encoder's gain that makes its neurons fire that often on random tokens: bisection."""
    count = min(_CALIBRATION, shape.vocab)
    one = np.ones(shape.width, np.float32)
    x = ops.layer_norm(embedding[:count], one, np.zeros_like(one))
    low, high = 0.0, 4.0
    for _ in range(20):
        middle = (low + high) / 2
        spikes, _ = ops.lif((x * np.float32(middle)), np.zeros_like(one), shape)
        low, high = (middle, high) if spikes[count // 4 :].mean() < density else (low, middle)
    return (low + high) / 2
