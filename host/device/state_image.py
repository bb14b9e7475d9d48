"""A session's state as the device holds it: the io buffer's state region, and the KV ring in every channel.

Pure array work, no device. Words and places: docs/architecture.md "Words", hw.compiler.layout.Layout,
hw.interface.Io.
"""

from collections.abc import Iterator

import numpy as np

from symlight.base.errors import UserError
from symlight.hw.compiler.image import head_space
from symlight.hw.compiler.layout import Layout
from symlight.model.state import State


def state_bytes(layout: Layout) -> int:
    """Bytes of the state region: membrane, then the decay state of every layer, int16."""
    return 2 * _elements(layout)


def _elements(layout: Layout) -> int:
    return (layout.width_words + layout.shape.layers * layout.query_words) * layout.engine.lanes


def pack_state(layout: Layout, state: State) -> np.ndarray:
    """Membrane and decay state as int16 words; padding is zero."""
    raw = np.zeros(_elements(layout), "<i2")
    membrane, decay = _views(layout, raw)
    membrane[: layout.shape.width] = state.membrane
    decay[:, head_space(layout)] = state.decay
    return raw


def unpack_state(layout: Layout, raw: np.ndarray, state: State) -> None:
    """Fill membrane and decay state of `state` from the words of `pack_state`."""
    membrane, decay = _views(layout, raw)
    state.membrane[:] = membrane[: layout.shape.width]
    state.decay[:] = decay[:, head_space(layout)]


def _views(layout: Layout, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    split = layout.width_words * layout.engine.lanes
    return raw[:split], raw[split:].reshape(layout.shape.layers, -1)


class RingImage:
    """Where the ring of a layer is stored in each channel, and how to move it.

    Channel k holds group k // columns and column k % columns; slot s belongs to group s mod groups. A slot is
    K of the column's heads, then V, each head padded to whole beats.
    """

    def __init__(self, layout: Layout):
        self.layout = layout
        self._plan = layout.ring
        self._groups = 1 << layout.ring.log_groups

    @property
    def channels(self) -> range:
        """Channels that hold a part of the ring."""
        return range(self._groups * self._plan.columns)

    def bytes(self, channel: int, populated: int) -> int:
        """Bytes of the populated slots of one layer in `channel`."""
        group = channel // self._plan.columns
        return (
            len(range(group, populated, self._groups)) * self._plan.slot_beats * self.layout.engine.beat_bytes
        )

    def offset(self, layer: int) -> int:
        """Byte offset of a layer's ring in every channel's buffer."""
        return self.layout.bases[layer]["ring"] * self.layout.engine.beat_bytes

    def pieces(self, populated: int) -> Iterator[tuple[int, int, int, int]]:
        """(layer, channel, byte offset, bytes) of everything that `populated` slots occupy."""
        for layer in range(self.layout.shape.layers):
            for channel in self.channels:
                if size := self.bytes(channel, populated):
                    yield layer, channel, self.offset(layer), size

    def pack(self, state: State, layer: int, channel: int, populated: int) -> np.ndarray:
        """Bytes of one piece."""
        slots, heads = self._place(channel, populated)
        cut = self._cut(np.zeros(self.bytes(channel, populated), np.int8))
        width = self.layout.shape.head_width
        for half, ring in enumerate((state.ring_k, state.ring_v)):
            by_head = ring[layer].reshape(self.layout.shape.slots, self.layout.shape.heads, width)
            cut[:, half, : len(heads), :width] = by_head[slots][:, heads]
        return cut.reshape(-1).view(np.uint8)

    def unpack(self, raw: np.ndarray, state: State, layer: int, channel: int, populated: int) -> None:
        """Put one piece into `state`."""
        slots, heads = self._place(channel, populated)
        cut = self._cut(np.ascontiguousarray(raw).view(np.int8))
        width = self.layout.shape.head_width
        for half, ring in enumerate((state.ring_k, state.ring_v)):
            by_head = ring[layer].reshape(self.layout.shape.slots, self.layout.shape.heads, width)
            by_head[np.ix_(slots, heads)] = cut[:, half, : len(heads), :width]

    def _place(self, channel: int, populated: int) -> tuple[np.ndarray, np.ndarray]:
        """Slots and heads of a channel."""
        group, column = divmod(channel, self._plan.columns)
        first = column * self._plan.heads
        heads = np.arange(first, min(first + self._plan.heads, self.layout.shape.heads))
        return np.arange(group, populated, self._groups), heads

    def _cut(self, raw: np.ndarray) -> np.ndarray:
        """View [slot, k or v, head, element]."""
        return raw.reshape(-1, 2, self._plan.heads, self._plan.head_words * self.layout.engine.lanes)


def check_fits(layout: Layout, state: State) -> None:
    """A `UserError` unless the state belongs to a model of the layout's shape."""
    if state.shape != layout.shape:
        raise UserError(
            "the session state belongs to a model of another shape; load the package it was saved with"
        )
