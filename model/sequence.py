"""The integer model over whole token sequences, a layer at a time: the integers of `Reference`, only faster.

For measuring quality and density and for calibration. Every sequence starts from a new session.
"""

from collections.abc import Iterator

import numpy as np

from . import ops
from .config import ModelShape
from .reference import PreparedBlock, PreparedHead
from .weights import BlockWeights, IntegerModel

HEAD_ROWS = 512  # positions whose logits are computed together


def encode(model: IntegerModel, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residual stream and spikes [B, T, D] of tokens [B, T]."""
    x = model.embedding_table[tokens].astype(np.int64)
    membrane, spikes = np.zeros((len(tokens), model.shape.width), np.int64), np.empty_like(x)
    for t in range(x.shape[1]):
        membrane, spikes[:, t] = ops.lif_step(membrane, x[:, t], model.numerics)
    return x, spikes


def decay_sequence(z: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Decay states [B, T, D] of inputs z [B, T, D]."""
    h, states = np.zeros((z.shape[0], z.shape[2]), np.int64), np.empty_like(z)
    for t in range(z.shape[1]):
        h = states[:, t] = ops.decay_step(h, z[:, t], beta)
    return states


def attention_sequence(q, k, v, shape: ModelShape, slopes, score_frac: int) -> tuple[np.ndarray, int]:
    """(outputs [T, D], rows whose weights sum to 0) of one sequence; a row is one head at one position.

    Every position sees anchors, window and itself.
    """
    count = len(q)
    by_head = (count, shape.heads, shape.head_width)
    q, k = (x.reshape(by_head).transpose(1, 0, 2).astype(np.float32) for x in (q, k))  # exact, see ops
    distance = np.subtract.outer(np.arange(count), np.arange(count))
    visible = (distance >= 0) & ((distance <= shape.window) | (np.arange(count) < shape.anchors))
    dots = np.matmul(q, k.transpose(0, 2, 1)).astype(np.int64)
    scores = (dots << score_frac) - slopes.astype(np.int64)[:, None, None] * distance
    weights = np.where(visible, ops.attention_weights(scores), 0)
    values = v.reshape(by_head).transpose(1, 0, 2).astype(np.float64)
    num = np.matmul(weights.astype(np.float64), values).astype(np.int64)
    den = weights.sum(axis=2)
    o = ops.divide(num, den[:, :, None])
    return o.transpose(1, 0, 2).reshape(count, shape.width), int(np.count_nonzero(den == 0))


class SequenceBlock:
    """One block over sequences; `active` [4] counts the nonzero inputs of its event sites, `out_active` those
    of W_O, `zero_sums` the attention rows that give nothing because no score is positive."""

    def __init__(self, model: IntegerModel, block: BlockWeights):
        self._model, self.prepared = model, PreparedBlock(block)
        self.active = np.zeros(4, np.int64)
        self.out_active = self.zero_sums = 0

    def mixer(self, c: np.ndarray, s: np.ndarray) -> np.ndarray:
        """u [B, T, D] of the residual stream and the spikes: steps 1 to 6."""
        return self.project(c, self.mixed(c, s))

    def mixed(self, c: np.ndarray, s: np.ndarray) -> np.ndarray:
        """m [B, T, D], the input of W_O: steps 1 to 5."""
        block, model = self.prepared, self._model
        e = ops.event(c, *block.attention_event)
        self.active[:2] += np.count_nonzero(e), np.count_nonzero(s)
        q, k, v = np.split(ops.event(block.qkv(e), *block.qkv_event), 3, axis=-1)
        h = decay_sequence(ops.decay_input(block.decay(s), *block.decay_scale), block.decay_beta)
        outputs, zero_sums = zip(
            *(
                attention_sequence(*one, model.shape, model.slopes, model.numerics.score_frac)
                for one in zip(q, k, v, strict=True)
            ),
            strict=True,
        )
        self.zero_sums += sum(zero_sums)
        return ops.mix(np.stack(outputs), h, *block.mix)

    def project(self, c: np.ndarray, m: np.ndarray) -> np.ndarray:
        """u [B, T, D] of the residual stream and the input of W_O: step 6."""
        block = self.prepared
        self.out_active += int(np.count_nonzero(m))
        branch = ops.requantise(block.out(m), *block.out_scale)
        return ops.layer_norm(ops.residual_sum(c, branch), *block.attention_norm)

    def feed_forward(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(c', s') [B, T, D] of u: steps 7 to 9."""
        block = self.prepared
        e = ops.event(u, *block.ffn_event)
        f = ops.step(block.up(e) - block.up_threshold)
        self.active[2:] += np.count_nonzero(e), np.count_nonzero(f)
        c = ops.layer_norm(
            ops.residual_sum(u, ops.requantise(block.down(f), *block.down_scale)), *block.ffn_norm
        )
        return c, ops.step(c - block.spike_threshold)


class SequenceModel:
    """A model prepared for sequences; `positions` counts what the blocks' `active` covers."""

    def __init__(self, model: IntegerModel):
        self.model = model
        self.blocks = [SequenceBlock(model, block) for block in model.blocks]
        self.head = PreparedHead(model)
        self.positions = self.head_rows = 0
        self.head_active = np.zeros(2, np.int64)  # nonzero elements of a and g

    def residual(self, tokens: np.ndarray) -> np.ndarray:
        """The last residual stream [B, T, D] of tokens [B, T]."""
        c, s = encode(self.model, tokens)
        for block in self.blocks:
            c, s = block.feed_forward(block.mixer(c, s))
        self.positions += tokens.size
        return c

    def logits(self, tokens: np.ndarray) -> Iterator[np.ndarray]:
        """Integer logits [rows, V] of tokens [B, T] in order, a few hundred rows at a time."""
        c = self.residual(tokens).reshape(-1, self.model.shape.width)
        for start in range(0, len(c), HEAD_ROWS):
            seen: dict[str, np.ndarray] = {}
            logits = self.head(c[start : start + HEAD_ROWS], seen)
            self.head_active += [np.count_nonzero(seen[f"head.{name}"]) for name in "ag"]
            self.head_rows += len(logits)
            yield logits

    def densities(self) -> np.ndarray:
        """Share of nonzero inputs [L, 4] by layer and event site, over everything run so far."""
        shape = self.model.shape
        sizes = np.array([shape.width, shape.width, shape.width, shape.ffn]) * max(self.positions, 1)
        return np.array([block.active for block in self.blocks]) / sizes

    def out_densities(self) -> np.ndarray:
        """Share of nonzero inputs of W_O [L], over everything run so far."""
        return np.array([block.out_active for block in self.blocks]) / (
            self.model.shape.width * max(self.positions, 1)
        )

    def head_densities(self) -> tuple[float, float]:
        """Share of nonzero elements of the head's inputs a and g, over all logits so far."""
        shape, rows = self.model.shape, max(self.head_rows, 1)
        a, g = self.head_active
        return float(a) / (shape.width * rows), float(g) / (shape.bottleneck * rows)

    def zero_sums(self) -> np.ndarray:
        """Share of attention rows [L] without a positive score, over everything run so far."""
        rows = self.model.shape.heads * max(self.positions, 1)
        return np.array([block.zero_sums for block in self.blocks]) / rows
