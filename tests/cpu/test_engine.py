"""The engine equals the reference in logits, tokens, counts and states.

For every shape, instruction set, number of threads, chunk length, batch and layout.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.cpu.engine import CHUNK, Engine, Feed, Session, Undo, Want
from symlight.cpu.isa import runnable
from symlight.cpu.layout import BY_ROW, MATRICES
from symlight.cpu.weights import Weights
from symlight.model.config import MAX_POSITION, OPTIONAL_SITES, ModelShape, Numerics, preset
from symlight.model.random_models.extremes import EXTREMES
from symlight.model.reference import SITES, Reference
from symlight.model.synthetic import random_model

ISAS = [isa.name for isa in runnable()]
SEED = 20
LENGTHS = (1, 1, 2, 5, CHUNK + 3, 1)  # tokens fed at a time: alone, several, more than a pass takes


def tokens_of(shape: ModelShape, count: int, seed: int = SEED) -> list[int]:
    return np.random.default_rng(seed).integers(0, shape.vocab, count).tolist()


def feed_all(pair, lengths=LENGTHS) -> None:
    tokens = tokens_of(pair.reference.shape, sum(lengths))
    for count in lengths:
        pair.feed(tokens[:count])
        tokens = tokens[count:]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", ["tiny", "odd", "wide"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_shape_and_instruction_set(beside, isa, name, threads):
    feed_all(beside(random_model(preset(name), SEED), threads, isa=isa))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_the_edges_of_the_arithmetic(beside, isa, extreme):
    feed_all(beside(random_model(preset("tiny"), SEED, extreme=extreme), isa=isa), (1, 3, 14))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("density", [0.0, 1.0])
@pytest.mark.parametrize("isa", ISAS)
def test_no_event_and_every_event(beside, isa, density):
    feed_all(beside(random_model(preset("odd"), SEED, density), isa=isa), (1, 1, 7))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("every_row", [False, True])
@pytest.mark.parametrize(
    "by_row", [frozenset(), frozenset(MATRICES), BY_ROW], ids=["columns", "rows", "mixed"]
)
def test_other_layouts_compute_the_same(beside, by_row, every_row):
    model = random_model(preset("wide"), SEED)
    feed_all(beside(model, 2, by_row, every_row=every_row), (1, 1, 9))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("sites", [("out",), ("head",), ("out", "head")], ids="+".join)
@pytest.mark.parametrize("threads", [1, 2])
def test_optional_event_sites(beside, isa, sites, threads):
    densities = dict.fromkeys(SITES, 0.3) | dict.fromkeys(sites, 0.4)
    pair = beside(random_model(preset("odd"), SEED, densities), threads, isa=isa)
    assert ("fused" in pair.engine.weights.by_row) == ("head" in sites)
    feed_all(pair, (1, 1, 7))
    before = pair.engine.profile()["head"][1]
    fed = pair.engine.run([Feed(pair.session, [3], Want.LAST)])[0]
    read = pair.engine.profile()["head"][1] - before
    rows = fed.optional[0, -2:].sum() if "head" in sites else pair.reference.shape.head_rows
    assert read == rows * pair.reference.shape.vocab  # the rows of zeros are not read


@pytest.mark.timeout(60)
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_optional_sites_without_an_event_and_with_all(beside, density):
    densities = dict.fromkeys((*SITES, *OPTIONAL_SITES), density)
    feed_all(beside(random_model(preset("wide"), SEED, densities), 2), (1, 1, 7))


shapes = st.builds(
    lambda heads, head_width, **rest: ModelShape(
        heads=heads, head_width=head_width, width=heads * head_width, **rest
    ),
    layers=st.integers(1, 2),
    heads=st.integers(1, 4),
    head_width=st.sampled_from((1, 3, 16, 31, 64, 65, 100)),
    ffn=st.integers(1, 200),
    vocab=st.integers(2, 140),
    bottleneck=st.integers(1, 70),
    anchors=st.integers(0, 3),
    window=st.integers(1, 9),
)


@pytest.mark.timeout(120)
@given(shape=shapes, seed=st.integers(0, 9), isa=st.sampled_from(ISAS), frac=st.integers(0, 6))
def test_any_shape(shape, seed, isa, frac):
    model = random_model(shape, seed, 0.4, numerics=Numerics(score_frac=frac))
    with Engine(Weights.pack(model), 1, isa=isa) as engine:
        session, reference = Session.new(shape), Reference(model)
        for count in (1, 6, 1, 13):
            tokens = tokens_of(shape, count, seed)
            fed = engine.run([Feed(session, tokens, Want.LAST, logits=True)])[0]
            expected = [reference.ingest(token, want_logits=True) for token in tokens]
            np.testing.assert_array_equal(fed.logits, [expected[-1].logits])
            np.testing.assert_array_equal(fed.active, [result.active for result in expected])
            assert session.state == reference.state and fed.tokens == [expected[-1].token]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_advance_together_as_they_do_alone(threads):
    model = random_model(preset("tiny"), SEED)
    with Engine(Weights.pack(model), threads) as engine:
        sessions, references = [], []
        for number in range(5):
            sessions.append(Session.new(model.shape))
            references.append(Reference(model))
            tokens = tokens_of(model.shape, 3 * number, number)  # they stand at different positions
            engine.run([Feed(sessions[-1], tokens)])
            for token in tokens:
                references[-1].ingest(token)
        for turn in range(20):
            lengths = [1, 1, 70 if turn == 3 else 2, 0, 1]
            wants = [Want.LAST, Want.NOTHING, Want.ALL, Want.LAST, Want.LAST]
            feeds = [
                Feed(session, tokens_of(model.shape, length, 10 * turn + number), want, logits=number == 4)
                for number, (session, length, want) in enumerate(zip(sessions, lengths, wants, strict=True))
            ]
            results = engine.run(feeds)
            for feed, fed, reference in zip(feeds, results, references, strict=True):
                expected = [reference.ingest(token, want_logits=True) for token in feed.tokens]
                wanted = {Want.NOTHING: [], Want.LAST: expected[-1:], Want.ALL: expected}[feed.want]
                assert fed.tokens == [result.token for result in wanted]
                assert feed.session.state == reference.state
                if feed.logits:
                    np.testing.assert_array_equal(fed.logits, [result.logits for result in wanted])
                else:
                    assert fed.logits is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("before", [0, 3, 40])
@pytest.mark.parametrize("kept", [1, 4, 9])
def test_tokens_are_taken_back(before, kept):
    """Also where the ring wraps within the feed, and overwrites a slot twice."""
    model = random_model(preset("odd"), SEED)
    fed = 9
    assert fed > model.shape.slots
    with Engine(Weights.pack(model), 2) as engine:
        tokens = tokens_of(model.shape, before + fed)
        session, expected = Session.new(model.shape), Session.new(model.shape)
        engine.run([Feed(session, tokens[:before])])
        undo = Undo(model.shape, fed)
        engine.run([Feed(session, tokens[before:], undo=undo)])
        undo.take_back(session.state, fed, kept)
        engine.run([Feed(expected, tokens[: before + kept])])
        assert session.state == expected.state


def test_feeds_that_cannot_be_done():
    model = random_model(preset("tiny"), SEED)
    with Engine(Weights.pack(model), 1) as engine:
        session = Session.new(model.shape)
        before = session.state.copy()
        with pytest.raises(UserError, match=r"token 160 is outside the vocabulary 0\.\.159"):
            engine.run([Feed(session, [1, 160])])
        with pytest.raises(UserError, match="takes part in a pass twice"):
            engine.run([Feed(session, [1]), Feed(session, [2])])
        assert session.state == before
        session.state.position = MAX_POSITION - 1
        with pytest.raises(UserError, match="the session is full"):
            engine.run([Feed(session, [1, 2])])
