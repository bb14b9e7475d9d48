"""What a run gives back besides tokens, and what a machine refuses."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.choosing import PLAIN, Features, Logits, RunOptions, check_options
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.hw.channel.logits import LOGIT_HEADS
from symlight.hw.interface import Io
from symlight.model import sampling
from symlight.model.reference import Reference
from symlight.model.sampling import CANDIDATES, SamplerSettings, SamplingOptions
from tests.benches.host.host_bench import LOGIT_SCALE, open_accelerator

PROMPT = [3, 1, 4, 1, 5]
NEW = 6
SETTINGS = SamplerSettings.of(SamplingOptions(temperature=0.9, seed=11), LOGIT_SCALE)


@pytest.fixture(params=["reference", "kernel"])
def machine(request, model, card):
    return ReferenceMachine(model) if request.param == "reference" else open_accelerator(card)


@pytest.fixture(scope="module")
def every_row(model):
    """(tokens, logits of every pass) of a run."""
    rows, reference = [], Reference(model)
    run = reference.generate(PROMPT, NEW, all_logits=True, on_pass=lambda result: rows.append(result.logits))
    return run.tokens, np.stack(rows)


@pytest.mark.parametrize("wanted", Logits)
@pytest.mark.parametrize("divided", [False, True])
def test_the_logits_that_were_asked_for_come_back(machine, every_row, wanted, divided):
    tokens, rows = every_row
    options = RunOptions(None, wanted)
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


def test_a_run_without_new_tokens_has_no_generated_rows(machine):
    assert machine.run(PROMPT, 0, None, options=RunOptions(None, Logits.GENERATED)).logits.shape == (0, 160)
    assert machine.run([2], 0, None, options=RunOptions(None, Logits.CANDIDATES)).candidates.shape == (
        0,
        64,
        2,
    )
    assert machine.run([2], 0, None, options=RunOptions(None, Logits.ALL)).logits.shape == (1, 160)


@pytest.mark.parametrize("room", [1, 4, 6])
def test_candidates_of_a_long_run_come_in_parts(card, model, room, monkeypatch):
    """The kernel has room for those of so many tokens; a run that an end-of-sequence token ends, too."""
    monkeypatch.setattr(Io, "CANDIDATE_TOKENS", room)
    options = RunOptions(SETTINGS, Logits.CANDIDATES)
    expected = ReferenceMachine(model).run(PROMPT, NEW, None, options=options)
    for eos in (None, expected.tokens[4]):
        result = open_accelerator(card).run(PROMPT, NEW, eos, options=options)
        count = NEW if eos is None else 1 + expected.tokens.index(eos)
        assert result.tokens == expected.tokens[:count]
        assert np.array_equal(result.candidates, expected.candidates[:count])
        assert (result.prompt_passes, result.decode_passes) == (len(PROMPT), count - 1)


@pytest.mark.parametrize("wanted", [Logits.ALL, Logits.GENERATED])
@pytest.mark.parametrize("inputs, new", [(1, 2 * LOGIT_HEADS), (2 * LOGIT_HEADS + 1, 3), (LOGIT_HEADS, 0)])
def test_logits_of_a_long_run_come_in_parts(card, model, wanted, inputs, new):
    """The kernel has room for those of so many heads; a pending token goes before the prompt."""
    ours, theirs = open_accelerator(card), ReferenceMachine(model)
    for prompt in ([5] * inputs, [6, 7] * (inputs // 2)):
        for eos in (None, 3):
            one, other = (m.run(prompt, new, eos, options=RunOptions(None, wanted)) for m in (ours, theirs))
            assert (one.tokens, one.stop_reason) == (other.tokens, other.stop_reason)
            assert np.array_equal(one.logits, other.logits) and np.array_equal(one.active, other.active)
            assert (one.prompt_passes, one.decode_passes) == (other.prompt_passes, other.decode_passes)


def test_the_host_chooses_token_by_token_through_the_pending_token(machine, model):
    """Logits out and a replaced pending token are all that a device needs to be sampled by the host."""
    tokens: list[int] = []
    while len(tokens) < NEW:
        result = machine.run([] if tokens else PROMPT, 1, None, options=RunOptions(None, Logits.GENERATED))
        tokens.append(sampling.choose(result.logits[0], SETTINGS, machine.position))
        machine.replace_pending(tokens[-1])
    assert tokens == Reference(model).generate(PROMPT, NEW, settings=SETTINGS).tokens
    assert machine.pending == tokens[-1] and machine.position == len(PROMPT) + NEW - 1


def test_only_a_pending_token_can_be_replaced(machine):
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


@pytest.mark.parametrize("wanted", [Logits.ALL, Logits.GENERATED])
@pytest.mark.parametrize("n_new", [0, 2])
@pytest.mark.parametrize("prompt", [[], [9], [9, 8, 7]])
def test_a_second_run_with_logits_equals_the_reference(machine, model, wanted, n_new, prompt):
    """With a pending token, and whatever the prompt: counts, rows and state."""
    reference, options = ReferenceMachine(model), RunOptions(None, wanted)
    results = []
    for device in (machine, reference):
        device.run(PROMPT, 2, None)
        results.append(device.run(prompt, n_new, None, options=options))
    ours, theirs = results
    assert ours.tokens == theirs.tokens and ours.stop_reason == theirs.stop_reason
    assert (ours.prompt_passes, ours.decode_passes) == (theirs.prompt_passes, theirs.decode_passes)
    assert np.array_equal(ours.logits, theirs.logits) and np.array_equal(ours.active, theirs.active)
    assert machine.read_state() == reference.read_state()
