"""What a run gives back besides tokens, and what a machine refuses."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.choosing import PLAIN, Features, Logits, RunOptions, check_options
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.model import sampling
from symlight.model.config import preset
from symlight.model.reference import Reference
from symlight.model.sampling import CANDIDATES, SamplerSettings, SamplingOptions
from symlight.model.synthetic import random_model

PROMPT = [3, 1, 4, 1, 5]
NEW = 6
SETTINGS = SamplerSettings.of(SamplingOptions(temperature=0.9, seed=11), 1e-7)


@pytest.fixture(scope="module")
def model():
    return random_model(preset("tiny"), 5)


@pytest.fixture(scope="module")
def every_row(model):
    """(tokens, logits of every pass) of a sampled run."""
    rows, reference = [], Reference(model)
    run = reference.generate(
        PROMPT, NEW, settings=SETTINGS, all_logits=True, on_pass=lambda result: rows.append(result.logits)
    )
    return run.tokens, np.stack(rows)


@pytest.mark.parametrize("wanted", Logits)
@pytest.mark.parametrize("divided", [False, True])
def test_the_logits_that_were_asked_for_come_back(model, every_row, wanted, divided):
    tokens, rows = every_row
    machine, options = ReferenceMachine(model), RunOptions(SETTINGS, wanted)
    if divided:
        result = machine.run(PROMPT, 1, None, options=options)
        for _ in range(NEW - 1):
            result = result + machine.run([], 1, None, options=options)
    else:
        result = machine.run(PROMPT, NEW, None, options=options)
    assert result.tokens == tokens
    assert (result.logits is None) == (wanted in (Logits.NONE, Logits.CANDIDATES))
    assert (result.candidates is None) == (wanted is not Logits.CANDIDATES)
    if wanted is Logits.ALL:
        assert np.array_equal(result.logits, rows)
    if wanted is Logits.GENERATED:
        assert np.array_equal(result.logits, rows[len(PROMPT) - 1 :])
    if wanted is Logits.CANDIDATES:
        assert result.candidates.shape == (NEW, CANDIDATES, 2)
        for row, pair in zip(rows[len(PROMPT) - 1 :], result.candidates, strict=True):
            assert np.array_equal(np.stack(sampling.candidates(row), axis=1), pair)


def test_a_run_without_new_tokens_has_no_generated_rows(model):
    machine = ReferenceMachine(model)
    assert machine.run(PROMPT, 0, None, options=RunOptions(None, Logits.GENERATED)).logits.shape == (0, 160)
    assert machine.run([2], 0, None, options=RunOptions(None, Logits.CANDIDATES)).candidates.shape == (
        0,
        64,
        2,
    )
    assert machine.run([2], 0, None, options=RunOptions(None, Logits.ALL)).logits.shape == (1, 160)


def test_the_host_chooses_token_by_token_through_the_pending_token(model, every_row):
    """Logits out and a replaced pending token are all that a device needs to be sampled by the host."""
    machine, tokens = ReferenceMachine(model), []
    while len(tokens) < NEW:
        result = machine.run([] if tokens else PROMPT, 1, None, options=RunOptions(None, Logits.GENERATED))
        tokens.append(sampling.choose(result.logits[0], SETTINGS, machine.position))
        machine.replace_pending(tokens[-1])
    assert tokens == every_row[0]


def test_only_a_pending_token_can_be_replaced(model):
    machine = ReferenceMachine(model)
    with pytest.raises(UserError, match="no token is pending"):
        machine.replace_pending(1)
    machine.run(PROMPT, 1, None)
    with pytest.raises(UserError, match="token 160 is outside"):
        machine.replace_pending(160)


def test_what_a_machine_cannot_do_is_refused_in_a_sentence():
    check_options("sim", Features(), PLAIN)
    with pytest.raises(UserError, match="sim cannot sample"):
        check_options("sim", Features(logits=True), RunOptions(SETTINGS))
    with pytest.raises(UserError, match="sim gives no logits back"):
        check_options("sim", Features(sampling=True), RunOptions(SETTINGS, Logits.CANDIDATES))
