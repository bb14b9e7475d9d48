"""Thresholds of random models, calibrated on the model's own activity: one function a place."""

import numpy as np

from .. import ops
from ..config import RESIDUAL_FRAC, Numerics
from ..scaling import event_scalars
from ..sequence import SequenceBlock
from ..weights import IntegerModel

UNIT = 1 << RESIDUAL_FRAC


def _upper_quantile(values: np.ndarray, share: float) -> float:
    """Threshold that `share` of the values reach."""
    return float(np.quantile(values, 1 - share))


def calibrate_encoder(table: np.ndarray, tokens: np.ndarray, target: float) -> Numerics:
    """The spike threshold of the input neurons that gives `target` spikes."""
    low, high = 1, Numerics().lif_clamp
    while low < high:
        middle = (low + high) // 2
        numerics = Numerics(lif_threshold=middle)
        membrane, spikes = np.zeros((len(tokens), table.shape[1]), np.int64), 0
        for t in range(tokens.shape[1]):
            membrane, s = ops.lif_step(membrane, table[tokens[:, t]], numerics)
            spikes += int(np.count_nonzero(s))
        low, high = (middle + 1, high) if spikes > target * tokens.size * table.shape[1] else (low, middle)
    return Numerics(lif_threshold=low)


def nearest_threshold(values: np.ndarray, share: float) -> int:
    """The threshold in 1..127 that the absolute value of nearest to `share` of these int8 values reaches."""
    counts = np.bincount(np.abs(values).reshape(-1), minlength=128)
    reached = counts[::-1].cumsum()[::-1] / values.size  # share of values of at least the index
    return 1 + int(np.abs(reached[1:128] - share).argmin())


def calibrate_head(model: IntegerModel, c: np.ndarray, share: float) -> float:
    """Set the threshold of the head's input on the last residual stream; gives the share that reaches it."""
    model.head.event[...] = max(1, round(_upper_quantile(np.abs(c), share)))
    head = model.head
    return (
        np.count_nonzero(ops.head_input(c, int(head.input[0]), int(head.input[1]), head.threshold)) / c.size
    )


def calibrate_block(
    model: IntegerModel, block, c, s, targets: np.ndarray, rng: np.random.Generator, out: float | None = None
):
    """Set the thresholds of one block in place, on the activity that reaches it.

    `targets` by SITES; `out`: of the input of W_O, when that is an event site. Gives (c', s', counts of
    nonzero inputs by SITES, count of nonzero inputs of W_O).
    """
    qkv, _, up, down = targets

    def set_event(event: np.ndarray, x: np.ndarray, share: float) -> None:
        threshold = max(1, round(_upper_quantile(np.abs(x), share)))
        # a payload at the threshold must not be rounded to 0
        step = min(max(threshold, UNIT // 4), 1.9 * threshold)
        event[...] = event_scalars(threshold, 1 / step)

    set_event(block.attention_event, c, qkv)
    block.out_event[...] = 0
    runner = SequenceBlock(model, block)
    m = runner.mixed(c, s)
    if out is not None:
        block.out_event[...] = nearest_threshold(m, out)
        m = m * (np.abs(m) >= block.out_threshold)
    u = runner.project(c, m)
    active = runner.active
    set_event(block.ffn_event, u, up)
    runner = SequenceBlock(model, block)
    acc = runner.prepared.up(ops.event(u, *runner.prepared.ffn_event))
    factor = rng.uniform(0.9, 1.1, model.shape.ffn)
    block.up.threshold[...] = np.ceil(_upper_quantile(acc / factor, down) * factor)
    runner.prepared.up_threshold = block.up.threshold.astype(np.int64)
    c, _ = runner.feed_forward(u)
    offset = rng.integers(-UNIT // 8, UNIT // 8 + 1, model.shape.width)
    # spikes of this block are the decay inputs of the next
    block.spike_threshold[...] = np.ceil(_upper_quantile(c - offset, targets[1]) + offset)
    return c, ops.step(c - block.spike_threshold), active + runner.active, np.count_nonzero(m)
