"""Bytes of every channel's HBM buffer for a model on an engine.

`build_images(layout, model)` returns one uint8 array a channel; the driver copies them to the card and the KV
ring region behind them starts as zeros. Nothing here knows a bit offset: structs pack through their own
layouts.
"""

import numpy as np
from amaranth.lib import data

from symlight.model.weights import IntegerModel

from ..types import ENTRY_BYTES, PARAMETER_BITS, NormParameter, ScaleParameter, StepParameter
from .layout import Layout, MatrixPlan
from .operation_table import header, operation_table

_NEVER = (1 << 27) - 1  # an event threshold that no accumulator reaches (arithmetic, section 8)
_NEVER_STEP = (1 << 31) - 1


def head_space(layout: Layout) -> np.ndarray:
    """Index in head space of every element of a width-sized vector, int64 [D]."""
    shape, words = layout.shape, layout.ring.head_words
    head, element = np.divmod(np.arange(shape.width), shape.head_width)
    return head * words * layout.engine.lanes + element


def pack(struct: type, count: int, **fields: np.ndarray) -> np.ndarray:
    """`count` structs of at most 64 bits as uint64; missing fields are zero, arrays broadcast."""
    layout = data.Layout.cast(struct)
    words = np.zeros(count, np.uint64)
    for name, values in fields.items():
        field = layout[name]
        mask = (1 << field.width) - 1
        bits = np.asarray(values).astype(np.int64) & mask
        words |= bits.astype(np.uint64) << np.uint64(field.offset)
    return words


def _scatter(values, index: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    out = np.full(size, fill, np.int64)
    out[index] = values
    return out


class _Images:
    """The channels' byte arrays while they are filled."""

    def __init__(self, layout: Layout):
        self.layout = layout
        engine = layout.engine
        self.beat = engine.beat_bytes
        # Only channel 0 holds what lies behind the rings; every channel needs room up to the end of its
        # rings.
        self.arrays = [
            np.zeros((layout.size if k == 0 else layout.channel_size) * self.beat, np.uint8)
            for k in range(engine.channels)
        ]

    def put(self, channel: int, base: int, values: np.ndarray):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self.arrays[channel][base * self.beat : base * self.beat + raw.size] = raw

    def matrix(self, plan: MatrixPlan, base: int, weights: list, inputs: np.ndarray, outputs: list):
        """Matrices [out, in] side by side in one plan; `inputs`, `outputs` place their elements in padded
        vectors."""
        lanes = plan.lanes
        full = np.zeros((plan.in_words * lanes, plan.columns * plan.beats * lanes), np.int8)
        for weight, place in zip(weights, outputs, strict=True):
            full[np.ix_(inputs, place)] = weight.T
        cut = full.reshape(plan.group_rows, plan.groups, plan.columns, plan.beats * lanes)
        for group in range(plan.groups):
            for column in range(plan.columns):
                self.put(group * plan.columns + column, base, cut[:, group, column])


def _parameters(layout: Layout, model: IntegerModel) -> np.ndarray:
    """All parameter words in table order, uint64 [words, lanes]."""
    lanes = layout.engine.lanes
    heads, residual = head_space(layout), np.arange(layout.shape.width)
    q_size, w_size = layout.query_words * lanes, layout.width_words * lanes
    f_size, p_size = layout.ffn_words * lanes, layout.prior_words * lanes
    words = []

    def scale(projection, index, size, extra=0, extra_fill=0):
        words.append(
            pack(
                ScaleParameter,
                size,
                multiplier=_scatter(projection.multiplier, index, size),
                shift=_scatter(projection.shift, index, size, 1),
                extra=_scatter(extra, index, size, extra_fill),
            )
        )

    def norm(parameters, tau):
        words.append(
            pack(
                NormParameter,
                w_size,
                gamma=_scatter(parameters.gamma, residual, w_size),
                beta=_scatter(parameters.beta, residual, w_size),
                tau=_scatter(tau, residual, w_size, 32767),
            )
        )

    for block in model.blocks:
        for projection in (block.q, block.k, block.v):
            scale(projection, heads, q_size, projection.threshold, _NEVER)
        scale(
            block.decay, heads, q_size, np.repeat(block.decay_beta.astype(np.int64), layout.shape.head_width)
        )
        scale(block.out, residual, w_size)
        norm(block.attention_norm, 32767)
        threshold = _scatter(block.up.threshold, np.arange(layout.shape.ffn), f_size, _NEVER_STEP)
        words.append(pack(StepParameter, f_size, threshold=threshold))
        scale(block.down, residual, w_size)
        norm(block.ffn_norm, block.spike_threshold)
    scale(model.head.prior, np.arange(layout.shape.bottleneck), p_size)
    return np.concatenate(words).reshape(-1, lanes)


def _head_tiles(images: _Images, model: IntegerModel):
    layout = images.layout
    shape, engine, lanes = layout.shape, layout.engine, layout.engine.lanes
    rows = layout.tiles * engine.channels * lanes
    columns = np.concatenate(
        [np.arange(shape.width), layout.width_words * lanes + np.arange(shape.bottleneck)]
    )
    scales = np.zeros(rows, "<u2")
    scales[: shape.vocab] = model.head.fused_scale
    scales = scales.reshape(layout.tiles, engine.channels, 2, lanes // 2)
    tile_rows = engine.channels * lanes
    for tile in range(layout.tiles):
        part = model.head.fused_weight[tile * tile_rows : (tile + 1) * tile_rows]
        full = np.zeros((tile_rows, layout.head_words * lanes), np.int8)
        full[: len(part), columns] = part
        by_channel = full.reshape(engine.channels, lanes, -1)
        for channel in range(engine.channels):
            base = layout.head_base + tile * layout.tile_beats
            images.put(channel, base, by_channel[channel].T)
            images.put(channel, base + layout.tile_beats - 2, scales[tile, channel])


def _embedding(images: _Images, model: IntegerModel):
    layout = images.layout
    step = layout.engine.side_channels
    table = np.zeros((layout.shape.vocab, layout.width_words * layout.engine.lanes), "<i2")
    table[:, : layout.shape.width] = model.embedding_table
    for channel in range(step):
        images.put(channel, layout.embed_base, table[channel::step])


def build_images(layout: Layout, model: IntegerModel) -> list[np.ndarray]:
    """Bytes of every channel's buffer, weights to parameters; rings are zero."""
    images = _Images(layout)
    heads, residual = head_space(layout), np.arange(layout.shape.width)
    q_size = layout.query_words * layout.engine.lanes
    for block, bases in zip(model.blocks, layout.bases, strict=True):
        images.matrix(
            layout.qkv,
            bases["qkv"],
            [block.q.weight, block.k.weight, block.v.weight],
            residual,
            [heads, q_size + heads, 2 * q_size + heads],
        )
        images.matrix(layout.decay, bases["decay"], [block.decay.weight], residual, [heads])
        images.matrix(layout.out, bases["out"], [block.out.weight], heads, [residual])
        images.matrix(layout.up, bases["up"], [block.up.weight], residual, [np.arange(layout.shape.ffn)])
        images.matrix(
            layout.down, bases["down"], [block.down.weight], np.arange(layout.shape.ffn), [residual]
        )
    images.matrix(
        layout.prior,
        layout.prior_base,
        [model.head.prior.weight],
        residual,
        [np.arange(layout.shape.bottleneck)],
    )
    _head_tiles(images, model)
    _embedding(images, model)
    _loadable(images, model)
    return images.arrays


def _loadable(images: _Images, model: IntegerModel):
    """Channel 0's header, operation table, parameters, GELU table and slopes: what LOAD reads."""
    layout = images.layout

    def entry(const) -> np.ndarray:
        return np.frombuffer(const.as_bits().to_bytes(ENTRY_BYTES, "little"), np.uint8)

    images.put(0, 0, entry(header(layout, model)))
    for i, op in enumerate(operation_table(layout, model)):
        images.put(0, layout.table_base + i * ENTRY_BYTES // images.beat, entry(op))
    parameters = _parameters(layout, model)
    raw = parameters.reshape(-1).view(np.uint8).reshape(-1, 8)[:, : PARAMETER_BITS // 8]
    images.put(0, layout.parameter_base, raw)
    images.put(0, layout.gelu_base, model.head.gelu_table.astype(np.int8))
    slopes = np.zeros(layout.slope_beats * images.beat // 2, "<u2")
    slopes[: layout.shape.heads] = model.slopes
    images.put(0, layout.slope_base, slopes)
