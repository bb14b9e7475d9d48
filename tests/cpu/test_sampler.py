"""The kernels' sampler equals model.sampling bit for bit, whatever the logits, settings and threads."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from symlight.cpu.engine import Engine, Feed, Session, Want
from symlight.cpu.isa import find, runnable
from symlight.cpu.library import Library
from symlight.cpu.sampler import Sampler, draw
from symlight.cpu.weights import Weights
from symlight.model.config import preset
from symlight.model.reference import Reference
from symlight.model.sampling import CANDIDATES, SamplerSettings, choose
from symlight.model.synthetic import random_model

pytestmark = pytest.mark.timeout(120)
LIBRARY = Library(find(None))
LOGIT = 2**47 - 1
SEED = 7

drawing = st.builds(
    SamplerSettings,
    multiplier=st.integers(0, 2**17 - 1),
    shift=st.integers(1, 63),
    top_k=st.integers(1, CANDIDATES),
    min_weight=st.integers(0, 2**24) | st.sampled_from([0, 1, 2**24]),
    top_p=st.integers(1, 2**16) | st.sampled_from([1, 2**16]),
    seed=st.integers(0, 2**64 - 1),
)
PLAIN = SamplerSettings(
    multiplier=1 << 16, shift=20, top_k=CANDIDATES, min_weight=0, top_p=1 << 16, seed=SEED
)
spans = st.sampled_from([1, 3, 100, 10**4, 10**7, 2**40, LOGIT])


@settings(max_examples=500)
@given(
    how=drawing, position=st.integers(0, 2**20), size=st.integers(1, 700), span=spans,
    seed=st.integers(0, 2**32),
)  # fmt: skip
@example(PLAIN, 0, 1, 1, 0)
@example(PLAIN, 5, CANDIDATES, 1, 0)
@example(PLAIN, 5, CANDIDATES + 1, 1, 0)  # equal ones: the lowest ids
@example(replace(PLAIN, multiplier=0), 5, 700, LOGIT, 0)  # all candidates weigh the same
@example(replace(PLAIN, min_weight=1 << 24), 5, 700, 3, 0)
def test_it_draws_what_the_reference_draws(how, position, size, span, seed):
    logits = np.random.default_rng(seed).integers(-span, span, size, endpoint=True)
    assert draw(LIBRARY, logits, Sampler(how), position) == choose(logits, how, position)


@pytest.mark.parametrize("order", [1, -1])
def test_it_draws_from_logits_in_order(order):
    """The most candidates that enter, and the fewest."""
    logits = np.arange(5000)[::order]
    for position in range(50):
        assert draw(LIBRARY, logits, Sampler(PLAIN), position) == choose(logits, PLAIN, position)


def test_a_wrong_setting_is_seen():
    """The comparison can fail: with another seed, or another scale, tokens differ."""
    logits = np.random.default_rng(SEED).integers(-(10**4), 10**4, 700)
    expected = [choose(logits, PLAIN, position) for position in range(50)]
    for other in (replace(PLAIN, seed=SEED + 1), replace(PLAIN, shift=PLAIN.shift + 4)):
        assert [draw(LIBRARY, logits, Sampler(other), position) for position in range(50)] != expected


@pytest.mark.parametrize("isa", [isa.name for isa in runnable()])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_passes_draw_their_tokens(isa, threads):
    """In passes over one token and over many, drawn tokens beside largest ones, with logits and without."""
    model = random_model(preset("wide"), SEED)
    scale = 16 - int(np.ptp(Reference(model).ingest(3, want_logits=True).logits)).bit_length()
    sampled = replace(PLAIN, shift=PLAIN.shift - scale) if scale < 0 else PLAIN
    reference = Reference(model)
    tokens = np.random.default_rng(SEED).integers(0, model.shape.vocab, 40).tolist()
    rows = [reference.ingest(token, want_logits=True) for token in tokens]
    drawn = [choose(row.logits, sampled, position + 1) for position, row in enumerate(rows)]
    assert drawn != [row.token for row in rows], "the tokens drawn are the likeliest ones: no test"
    with Engine(Weights.pack(model), threads, isa=isa) as engine:
        sessions = [Session.new(model.shape) for _ in range(3)]
        sampler = Sampler(sampled)
        for first, last in ((0, 1), (1, 2), (2, 9), (9, 40)):
            part = tokens[first:last]
            one, two, three = engine.run([
                Feed(sessions[0], part, Want.ALL, sampler=sampler),
                Feed(sessions[1], part, Want.ALL),
                Feed(sessions[2], part, Want.LAST, logits=True, sampler=sampler),
            ])  # fmt: skip
            assert one.tokens == drawn[first:last]
            assert two.tokens == [row.token for row in rows[first:last]]
            assert three.tokens == drawn[last - 1 : last]
            np.testing.assert_array_equal(three.logits[-1], rows[last - 1].logits)
