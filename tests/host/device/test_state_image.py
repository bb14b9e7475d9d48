"""Session state between the model's arrays and the device's words, for shapes where nothing is a multiple of
anything."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.state_image import RingImage, check_fits, pack_state, state_bytes, unpack_state
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import CARDS
from symlight.hw.interface import Io
from symlight.model.config import PRESETS, preset
from symlight.model.state import State
from symlight.model.synthetic import random_model
from tests.benches.host.fake_card import FakeCard

CASES = [
    ("tiny", "sim2"),
    ("tiny", "sim8"),
    ("odd", "sim4"),
    ("odd", "sim6"),
    ("wide", "sim4"),
    ("wide", "sim8"),
    ("demo", "sim4"),
]


def random_state(shape, position: int) -> State:
    rng = np.random.default_rng(position)
    state = State.new(shape)
    state.position, state.pending = position, 3
    state.membrane[:] = rng.integers(-32768, 32768, shape.width)
    state.decay[:] = rng.integers(-32768, 32768, state.decay.shape)
    for ring in (state.ring_k, state.ring_v):
        ring[:, : state.populated] = rng.integers(-127, 128, (shape.layers, state.populated, shape.width))
    return state


@pytest.mark.parametrize("name, card_name", CASES)
@pytest.mark.parametrize("fill", [0, 1, 5, None])
def test_words_are_where_the_kernel_puts_them(name, card_name, fill):
    shape, engine = preset(name), CARDS[card_name]
    state = random_state(shape, shape.slots + 3 if fill is None else fill)
    # Its loops place every element on its own.
    card = FakeCard(engine, random_model(shape, 1), 0)
    layout, image = card.layout, RingImage(card.layout)
    card.buffers = {
        f"hbm{k:02d}": np.full(layout.size * engine.beat_bytes, 0x5A, np.uint8)
        for k in range(engine.channels)
    }
    card._store_ring(state)
    assert np.array_equal(pack_state(layout, state), card._flat(state))
    pieces = list(image.pieces(state.populated))
    assert bool(pieces) == bool(state.populated)
    read = State.new(shape)
    read.position, read.pending = state.position, state.pending
    unpack_state(layout, pack_state(layout, state), read)
    for layer, channel, offset, size in pieces:
        image.unpack(
            card.buffers[f"hbm{channel:02d}"][offset : offset + size], read, layer, channel, state.populated
        )
    assert read == state
    # and the other way
    for layer, channel, offset, size in pieces:
        raw = image.pack(state, layer, channel, state.populated)
        assert raw.size == size and raw.dtype == np.uint8
        card.buffers[f"hbm{channel:02d}"][offset : offset + size] = raw
    for expected, found in card._ring_parts(state):
        assert np.array_equal(expected, found)


@pytest.mark.parametrize("name", PRESETS)
def test_the_state_region_is_large_enough(name):
    fitting = 0
    for engine in CARDS.values():
        try:
            layout = Layout(engine, preset(name))
        except UserError:
            continue
        fitting += 1
        assert state_bytes(layout) <= Io.PROMPT - Io.STATE
    assert fitting


def test_a_state_of_another_shape_is_refused():
    with pytest.raises(UserError, match="another shape"):
        check_fits(Layout(CARDS["sim4"], preset("tiny")), State.new(preset("odd")))
