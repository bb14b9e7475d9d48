"""The V1 engine: against the float model, and against itself over chunks, threads and instruction sets."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.cpu.isa import runnable
from symlight.cpu.v1.engine import EngineV1
from symlight.model.v1.config import MAX_POSITION, V1Shape
from symlight.model.v1.float_model import FloatV1
from symlight.model.v1.package import V1Meta, load_v1, save_v1
from tests.benches.model.v1_worlds import FAMILIES, RARE, USUAL, model

pytestmark = pytest.mark.timeout(240)  # the first test compiles
LENGTH = 90
ISAS = [isa.name for isa in runnable()]
FUSED = [name for name in ISAS if name != "plain"]  # these have fused multiply-add
SIZES = dict(width=48, heads=3, ffn=70, vocab=101)  # nothing is a multiple of a block or a strip


def package(folder, seed, densities=USUAL, family=FAMILIES[0], weights="int8", **sizes):
    shape, tensors, random = model(seed, densities, family, **sizes)
    save_v1(folder, shape, V1Meta(name="test", weights=weights), tensors.items())
    return load_v1(folder), random.integers(0, shape.vocab, LENGTH)


def whole(made, tokens, **options):
    with EngineV1(made, **options) as engine:
        return engine.run(engine.session(), tokens, wanted=len(tokens))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """(package, tokens) by kind of weights."""
    folder = tmp_path_factory.mktemp("v1")
    return {
        weights: package(folder / weights, 3, weights=weights, **SIZES) for weights in ("int8", "float32")
    }


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("weights", ["int8", "float32"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_float_model(tmp_path, isa, weights, family):
    for seed, densities in ((1, RARE), (2, USUAL)):
        made, tokens = package(tmp_path / str(seed), seed, densities, family, weights, **SIZES)
        expected = FloatV1(made.shape, made.float_tensors(), np.float64).logits(tokens)
        found = whole(made, tokens, isa=isa)
        assert np.abs(found - expected).max() < 2e-5
        assert (found.argmax(1) == expected.argmax(1)).all()


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_shapes(tmp_path_factory, data):
    heads, head_width = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([2, 6, 16, 34]))
    sizes = dict(
        layers=data.draw(st.integers(1, 2)),
        heads=heads,
        head_width=head_width,
        width=heads * head_width,
        ffn=data.draw(st.integers(1, 200)),
        vocab=data.draw(st.integers(2, 90)),
        bottleneck=data.draw(st.integers(1, 20)),
        window=data.draw(st.integers(1, 40)),
        anchors=data.draw(st.integers(0, 5)),
    )
    weights, seed = data.draw(st.sampled_from(["int8", "float32"])), data.draw(st.integers(0, 999))
    folder = tmp_path_factory.mktemp("shape") / "p"
    made, tokens = package(folder, seed, weights=weights, **sizes)
    runner = FloatV1(made.shape, made.float_tensors(), np.float64)
    expected = runner.logits(tokens)
    assume(runner.counts.closest > 1e-5)  # else rounding may decide about a spike
    assert np.abs(whole(made, tokens, threads=data.draw(st.integers(1, 3))) - expected).max() < 1e-4


@pytest.mark.parametrize("weights", ["int8", "float32"])
def test_chunks_and_threads_do_not_change_a_bit(worlds, weights):
    made, tokens = worlds[weights]
    expected = whole(made, tokens)
    for threads in (1, 2, 3):
        with EngineV1(made, threads) as engine:
            session = engine.session()
            for cuts in (range(LENGTH + 1), (0, 1, 30, 31, 33, 64, LENGTH), (0, LENGTH)):
                cuts = list(cuts)
                parts = [engine.run(session, tokens[i:j], wanted=j - i) for i, j in zip(cuts, cuts[1:])]
                assert np.array_equal(np.concatenate(parts), expected), (threads, cuts)
                assert session.position == LENGTH
                session.reset()


@pytest.mark.parametrize("weights", ["int8", "float32"])
def test_instruction_sets_do_not_change_a_bit(worlds, weights):
    made, tokens = worlds[weights]
    first, *others = [whole(made, tokens, isa=isa) for isa in FUSED] or [None]
    for other in others:
        assert np.array_equal(other, first)


@pytest.mark.parametrize("weights", ["int8", "float32"])
def test_the_layout_by_row_computes_the_same(worlds, weights):
    made, tokens = worlds[weights]
    found, expected = whole(made, tokens, by_row=True), whole(made, tokens)
    if weights == "int8":  # sums of integers
        assert np.array_equal(found, expected)
    assert np.abs(found - expected).max() < 2e-5


def test_wanted_positions_and_rows(worlds):
    made, tokens = worlds["int8"]
    expected = whole(made, tokens)
    with EngineV1(made) as engine:
        for wanted in (0, 1, 26, 64, 65, LENGTH):
            for rows in (1, 64, 77, 101):
                found = engine.run(engine.session(), tokens, wanted=wanted, rows=rows)
                assert np.array_equal(found, expected[LENGTH - wanted :, :rows])


def test_counts(worlds):
    made, tokens = worlds["int8"]
    runner = FloatV1(made.shape, made.float_tensors())
    runner.logits(tokens)
    with EngineV1(made, 2) as engine:
        engine.run(engine.session(), tokens)
        assert engine.positions == LENGTH
        assert np.array_equal(engine.active, np.column_stack([runner.counts.tcam, runner.counts.down]))
        assert (engine.nanoseconds > 0).sum() >= 6
        engine.clear()
        assert engine.positions == engine.active.sum() == engine.nanoseconds.sum() == 0


def test_sessions_do_not_touch_each_other(worlds):
    made, tokens = worlds["int8"]
    expected = whole(made, tokens)
    with EngineV1(made) as engine:
        one, two = engine.session(), engine.session()
        for i in range(0, LENGTH, 10):
            engine.run(two, tokens[: 10 - i % 7])
            assert np.array_equal(engine.run(one, tokens[i : i + 10], wanted=10), expected[i : i + 10])


@pytest.mark.parametrize("what", ["window", "anchors", "leak", "threshold"])
def test_a_wrong_model_is_seen(worlds, what):
    """The comparison can fail: the float model of another shape differs from the engine."""
    made, tokens = worlds["int8"]
    other = made.shape.to_json()
    other[what] = {"window": other["window"] + 1, "anchors": 1, "leak": 0.8, "threshold": 1.05}[what]
    wrong = FloatV1(V1Shape.from_json(other), made.float_tensors(), np.float64).logits(tokens)
    assert np.abs(whole(made, tokens) - wrong).max() > 1e-3


def test_refusals(worlds):
    made, tokens = worlds["int8"]
    with EngineV1(made) as engine:
        session = engine.session()
        engine.run(session, tokens[:3])
        for bad, part in (([], "no tokens"), ([101], "token 101"), ([-1], "token -1")):
            with pytest.raises(UserError, match=part):
                engine.run(session, bad)
        assert session.position == 3
        session.record.position = MAX_POSITION
        with pytest.raises(UserError, match="new session"):
            engine.run(session, [1])
    with pytest.raises(UserError, match="cannot run the instruction set"):
        EngineV1(made, isa="nothing")
