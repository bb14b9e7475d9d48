"""Sampled runs of the reference: a seed gives one text, however the run is divided."""

import numpy as np
import pytest

from symlight.model import sampling
from symlight.model.config import preset
from symlight.model.reference import Reference
from symlight.model.sampling import SamplerSettings, SamplingOptions
from symlight.model.session_file import SavedSession
from symlight.model.synthetic import random_model

PROMPT = [3, 141, 59, 26]
NEW = 14


@pytest.fixture(scope="module")
def tiny():
    """(model, a logit scale that spreads its logits over a few octaves)."""
    model = random_model(preset("tiny"), 5)
    logits = Reference(model).ingest(7, want_logits=True).logits
    return model, 2.0 / float(np.std(logits))


def grid(scale):
    for seed in (0, 1, 2**63 + 5):
        for values in ({"temperature": 0.7}, {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "min_p": 0.02}):
            yield SamplerSettings.of(SamplingOptions(seed=seed, **values), scale)


def test_tokens_are_the_choices_from_the_logits_at_their_positions(tiny):
    model, scale = tiny
    for settings in grid(scale):
        chosen, reference = [], Reference(model)

        def on_pass(result, chosen=chosen, settings=settings):
            if result.logits is not None:
                chosen.append(sampling.choose(result.logits, settings, result.position + 1))

        run = reference.generate(PROMPT, NEW, settings=settings, on_pass=on_pass)
        assert run.tokens == chosen and len(chosen) == NEW
        assert reference.state.pending == chosen[-1]


def test_seeds_and_settings_give_different_texts(tiny):
    model, scale = tiny
    texts = {
        tuple(Reference(model).generate(PROMPT, NEW, settings=settings).tokens) for settings in grid(scale)
    }
    texts.add(tuple(Reference(model).generate(PROMPT, NEW).tokens))
    assert len(texts) == 7


@pytest.mark.parametrize("cut", [1, 5, NEW - 1])
def test_a_divided_run_through_a_saved_state_equals_one_run(tiny, cut):
    model, scale = tiny
    for settings in grid(scale):
        whole = Reference(model)
        expected = whole.generate(PROMPT, NEW, settings=settings).tokens
        first = Reference(model)
        tokens = first.generate(PROMPT, cut, settings=settings).tokens
        second = Reference(
            model, SavedSession.from_bytes(model.shape, SavedSession(state=first.state).to_bytes()).state
        )
        while len(tokens) < NEW:
            tokens = tokens + second.generate([], 1, settings=settings).tokens
        assert tokens == expected and second.state == whole.state


def test_a_drawn_end_of_sequence_ends_the_run(tiny):
    model, scale = tiny
    settings = next(grid(scale))
    tokens = Reference(model).generate(PROMPT, NEW, settings=settings).tokens
    eos = tokens[4]
    run = Reference(model).generate(PROMPT, NEW, eos=eos, settings=settings)
    assert run.tokens == tokens[: tokens.index(eos) + 1] and run.stop_reason == "eos"


def test_all_logits_are_those_of_every_pass_and_change_no_token(tiny):
    model, _ = tiny
    rows = []
    run = Reference(model).generate(
        PROMPT, 3, all_logits=True, on_pass=lambda result: rows.append(result.logits)
    )
    assert run.head_evaluations == len(rows) == len(PROMPT) + 2
    assert run.tokens == Reference(model).generate(PROMPT, 3).tokens
    alone = Reference(model)
    for token, row in zip([*PROMPT, *run.tokens], rows, strict=False):
        assert np.array_equal(alone.ingest(token, want_logits=True).logits, row)
