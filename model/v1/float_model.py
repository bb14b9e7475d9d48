"""What a V1 model computes: the specification of the engine, in numpy.

`FloatV1.logits` runs a whole sequence; `FloatV1.advance` goes on from a `V1State`, a chunk of any length at a
time, and remembers only what later positions can still see. Both give the same numbers up to rounding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from symlight.base.errors import UserError

from . import ops
from . import tensors as names
from .config import MAX_POSITION, V1Shape


@dataclass
class Memory:
    """What one block keeps: the decay state [H, d], and turned keys and values [S, H, d] at `positions` [S].

    Positions without a spike are never seen as keys, so they are not kept.
    """

    decay: np.ndarray
    keys: np.ndarray
    values: np.ndarray
    positions: np.ndarray


@dataclass
class V1State:
    """A session: the next position, the membrane [D] of the encoder, the memory of every block."""

    position: int
    membrane: np.ndarray
    blocks: list[Memory]


@dataclass
class Counts:
    """Spikes of a run, [layers] each of those into `tcam` and into `down`.

    `closest` is the smallest distance of a compared number after the encoder to the threshold: two runs
    whose rounding differs by less have the same spikes there.
    """

    positions: int = 0
    closest: float = np.inf
    tcam: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    down: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


class FloatV1:
    """A V1 model.

    Parameters
    ----------
    shape : V1Shape
    tensors : mapping of str to array
        The tensors of `tensors.matrices` (with `.weight`, float) and `tensors.vectors`, and the embedding.
    dtype : numpy type
        Of all arithmetic: float32 as in the public definition, or float64.
    """

    def __init__(self, shape: V1Shape, tensors: Mapping[str, np.ndarray], dtype=np.float32):
        self.shape, self.dtype = shape, dtype
        self._tensors = tensors
        self.counts = Counts(tcam=np.zeros(shape.layers, np.int64), down=np.zeros(shape.layers, np.int64))

    def start(self) -> V1State:
        """The state before the first token."""
        shape = self.shape
        empty = np.zeros((0, shape.heads, shape.head_width), self.dtype)
        blocks = [
            Memory(np.zeros((shape.heads, shape.head_width), self.dtype), empty, empty, np.zeros(0, np.int64))
            for _ in range(shape.layers)
        ]
        return V1State(0, np.zeros(shape.width, self.dtype), blocks)

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """Logits [T, V] of a whole sequence from the start."""
        return self.advance(self.start(), tokens)

    def advance(self, state: V1State, tokens: Sequence[int]) -> np.ndarray:
        """Logits [T, V] of the next tokens of a session; `state` goes on."""
        ids = self._checked(tokens, state.position)
        x = self._get(names.EMBEDDING)[ids]
        c = ops.layer_norm(x, *self._norm(names.ENCODER_NORM))
        s, state.membrane = ops.lif(c, state.membrane, self.shape)
        positions = np.arange(state.position, state.position + len(ids))
        for layer, memory in enumerate(state.blocks):
            c, s = self._block(layer, c, s, positions, memory)
        state.position += len(tokens)
        self.counts.positions += len(tokens)
        return self._head(c)

    def _block(self, layer: int, c, s, positions, memory: Memory) -> tuple[np.ndarray, np.ndarray]:
        """(residual stream [T, D], spikes [T, D]) after a block."""
        by_head = (len(c), self.shape.heads, self.shape.head_width)
        self.counts.tcam[layer] += np.count_nonzero(s)
        alpha = ops.sigmoid(self._get(names.block(layer, names.DECAY)))
        gate = ops.sigmoid(self._get(names.block(layer, names.GATE)))
        z = self._times(layer, names.TCAM, s.astype(self.dtype))
        h = ops.decay(z.reshape(by_head), memory.decay, alpha)
        memory.decay = h[-1]
        o = self._attention(layer, c, s.any(axis=1), positions, memory)
        mixed = gate * o + (1 - gate) * h.reshape(c.shape)
        u = ops.layer_norm(
            c + self._times(layer, names.OUT, mixed), *self._norm(names.block(layer, names.TCAM_NORM))
        )
        f = self._fires(self._times(layer, names.UP, u))
        self.counts.down[layer] += np.count_nonzero(f)
        c = ops.layer_norm(
            u + self._times(layer, names.DOWN, f.astype(self.dtype)),
            *self._norm(names.block(layer, names.FFN_NORM)),
        )
        return c, self._fires(c)

    def _fires(self, x: np.ndarray) -> np.ndarray:
        distance = x - self.dtype(self.shape.threshold)
        self.counts.closest = min(self.counts.closest, float(np.abs(distance).min()))
        return distance >= 0

    def _attention(self, layer: int, c, active, positions, memory: Memory) -> np.ndarray:
        """Attention output [T, D]; `memory` gets the keys of this chunk and loses what nobody sees again."""
        shape = self.shape
        by_head = (len(c), shape.heads, shape.head_width)
        q, k, v = (
            self._times(layer, name, c).reshape(by_head) for name in (names.QUERY, names.KEY, names.VALUE)
        )
        inv_freq = self._tensors[names.INV_FREQ]
        q, k = (ops.rotary(x, positions, inv_freq) for x in (q, k))
        keys, values = np.concatenate([memory.keys, k]), np.concatenate([memory.values, v])
        key_positions = np.concatenate([memory.positions, positions])
        has_spike = np.concatenate([np.ones(len(memory.keys), bool), active])
        mask = ops.visible(positions, key_positions, shape) & has_spike
        output = ops.attention(q, keys, values, mask, active, shape)
        keep = has_spike & ops.visible(positions[-1:] + 1, key_positions, shape)[0]
        memory.keys, memory.values, memory.positions = keys[keep], values[keep], key_positions[keep]
        return output

    def _head(self, c: np.ndarray) -> np.ndarray:
        prior = ops.gelu(c @ self._get(f"{names.PRIOR_IN}.weight").T)
        logits = c @ self._get(f"{names.HEAD}.weight").T
        return logits + self._get(names.PRIOR_WEIGHT) * (prior @ self._get(f"{names.PRIOR_OUT}.weight").T)

    def _times(self, layer: int, name: str, x: np.ndarray) -> np.ndarray:
        """x [T, in] times a matrix of the block: [T, out]."""
        return x @ self._get(f"{names.block(layer, name)}.weight").T

    def _norm(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return self._get(f"{name}.weight"), self._get(f"{name}.bias")

    def _get(self, name: str) -> np.ndarray:
        return self._tensors[name].astype(self.dtype, copy=False)

    def _checked(self, tokens: Sequence[int], position: int) -> np.ndarray:
        found = np.asarray(tokens, np.int64)
        if found.ndim != 1 or not len(found):
            raise UserError("there are no tokens to run; give at least one")
        if found.min() < 0 or found.max() >= self.shape.vocab:
            bad = found[(found < 0) | (found >= self.shape.vocab)][0]
            raise UserError(f"token {bad} is outside the vocabulary 0..{self.shape.vocab - 1} of the model")
        if position + len(found) > MAX_POSITION:
            raise UserError(f"a session has {MAX_POSITION} positions; start a new session")
        return found
