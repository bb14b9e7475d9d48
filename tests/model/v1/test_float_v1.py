"""The float V1 model: against numbers worked out one by one, and against itself in pieces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.v1.config import MAX_POSITION, V1Shape
from symlight.model.v1.float_model import FloatV1
from tests.benches.model.naive_v1 import run
from tests.benches.model.v1_worlds import FAMILIES, RARE, USUAL, model

pytestmark = pytest.mark.timeout(60)
SHAPES = dict(
    layers=st.integers(1, 2),
    window=st.integers(1, 7),
    anchors=st.integers(0, 3),
    heads=st.sampled_from([1, 2]),
)


@st.composite
def worlds(draw):
    sizes = {name: draw(strategy) for name, strategy in SHAPES.items()}
    sizes |= {"head_width": 8, "width": 8 * sizes["heads"], "ffn": draw(st.integers(1, 20)), "vocab": 24}
    family, rare = draw(st.sampled_from(FAMILIES)), draw(st.booleans())
    return model(draw(st.integers(0, 1 << 16)), RARE if rare else USUAL, family, **sizes)


@settings(max_examples=25, deadline=None)
@given(worlds(), st.integers(1, 20))
def test_numbers(world, length):
    shape, tensors, random = world
    tokens = random.integers(0, shape.vocab, length)
    logits, _ = run(shape, tensors, tokens)
    assert np.abs(FloatV1(shape, tensors, np.float64).logits(tokens) - logits).max() < 1e-6


@settings(max_examples=25, deadline=None)
@given(worlds(), st.data())
def test_pieces_equal_the_whole(world, data):
    shape, tensors, random = world
    length = data.draw(st.integers(1, 40))
    tokens = random.integers(0, shape.vocab, length)
    cuts = sorted({0, length, *data.draw(st.lists(st.integers(0, length), max_size=5))})
    whole = FloatV1(shape, tensors, np.float64).logits(tokens)
    runner = FloatV1(shape, tensors, np.float64)
    for pieces in (list(zip(cuts, cuts[1:])), [(i, i + 1) for i in range(length)]):
        state = runner.start()
        parts = [runner.advance(state, tokens[i:j]) for i, j in pieces]
        assert np.abs(np.concatenate(parts) - whole).max() < 1e-9
        assert state.position == length


def test_positions_without_a_spike_are_neither_queries_nor_keys():
    shape, tensors, random = model(5, RARE, width=16, heads=2, head_width=8)
    tokens = random.integers(0, shape.vocab, 24)
    logits, idle = run(shape, tensors, tokens)
    assert 10 < idle < 24 * shape.layers  # both kinds occur
    runner = FloatV1(shape, tensors, np.float64)
    state = runner.start()
    for token, expected in zip(tokens, logits, strict=True):
        assert np.abs(runner.advance(state, [token]) - expected).max() < 1e-6
    assert all(len(memory.keys) <= shape.slots - 1 for memory in state.blocks)


def test_the_memory_is_bounded_by_window_and_anchors():
    shape, tensors, random = model(6, window=5, anchors=3)
    runner = FloatV1(shape, tensors)
    state = runner.start()
    for _ in range(4):
        runner.advance(state, random.integers(0, shape.vocab, 25))
        for memory in state.blocks:
            kept = memory.positions
            assert ((kept < shape.anchors) | (kept >= state.position - shape.window)).all()
            assert len(kept) >= shape.window // 2  # spikes are frequent: it is not simply empty


@pytest.mark.parametrize("what", ["window", "anchors", "frequencies", "membrane", "bias"])
def test_a_wrong_meaning_is_seen(what):
    """Each of these changes the logits, so the comparisons above can fail."""
    shape, tensors, random = model(7, window=4, anchors=2)
    tokens = random.integers(0, shape.vocab, 20)
    right = FloatV1(shape, tensors, np.float64).logits(tokens)
    changed, other = dict(tensors), shape.to_json()
    if what == "frequencies":
        changed["rope.inv_freq"] = tensors["rope.inv_freq"] * np.float32(1.01)
    elif what == "bias":
        changed["blocks.1.ffn.norm.bias"] = tensors["blocks.1.ffn.norm.bias"] + np.float32(0.01)
    elif what == "membrane":
        other["leak"] = 0.9
    else:
        other[what] += 1
    wrong = FloatV1(V1Shape.from_json(other), changed, np.float64).logits(tokens)
    assert np.abs(wrong - right).max() > 1e-4


def test_tokens_are_checked():
    shape, tensors, _ = model(8)
    runner = FloatV1(shape, tensors)
    for tokens, part in (([], "no tokens"), ([96], "token 96"), ([-1], "token -1")):
        with pytest.raises(UserError, match=part):
            runner.logits(tokens)
    state = runner.start()
    state.position = MAX_POSITION
    with pytest.raises(UserError, match="new session"):
        runner.advance(state, [1])


def test_shapes_are_checked():
    good = model(9)[0].to_json()
    for change, part in (
        ({"heads": 3}, "heads"),
        ({"layers": 0}, "layers = 0"),
        ({"window": 1.5}, "window = 1.5"),
        ({"leak": float("nan")}, "leak"),
        ({"head_width": 15, "width": 30}, "odd"),
    ):
        with pytest.raises(UserError, match=part):
            V1Shape.from_json(good | change)
    with pytest.raises(UserError, match="nonsense"):
        V1Shape.from_json(good | {"nonsense": 1})
