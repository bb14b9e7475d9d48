"""Sampled turns: one text from a seed on every kind of device, however the turn is run, saved and resumed."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.choosing import Features, Logits, TurnOptions
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.session import Session
from symlight.host.device.verify import VerificationError, Verifier
from symlight.model.penalties import Penalties
from symlight.model.sampling import SamplingOptions
from tests.benches.host.host_bench import LOGIT_SCALE, open_accelerator

PROMPT = [5, 6, 7, 8]
SAMPLED = TurnOptions(SamplingOptions(temperature=0.9, top_p=0.95, min_p=0.01, seed=3))
PENALISED = TurnOptions(
    SAMPLED.sampling, Penalties(repetition=1.3, presence=0.2, frequency=0.1, bias={9: 1.0}, banned={5})
)


class LogitsOnly(ReferenceMachine):
    """A device that gives logits but cannot sample, as a kernel with logits out."""

    features = Features(logits=True)


class Neither(ReferenceMachine):
    """A greedy device without logits, as a kernel without both."""

    features = Features()


@pytest.fixture(params=["samples", "logits only", "kernel"])
def make(request, model, card):
    """Makes a device of each kind."""
    if request.param == "kernel":
        return lambda: open_accelerator(card)
    kind = ReferenceMachine if request.param == "samples" else LogitsOnly
    return lambda: kind(model)


def session_on(machine, model, **values):
    return Session(machine, verifier=Verifier(model), logit_scale=LOGIT_SCALE, **values)


@pytest.mark.parametrize("options", [SAMPLED, PENALISED], ids=["sampled", "penalised"])
@pytest.mark.parametrize("interactive", [False, True])
def test_one_text_whoever_chooses_and_however_it_is_run(model, options, make, interactive):
    expected = Session(ReferenceMachine(model), logit_scale=LOGIT_SCALE).turn(PROMPT, 9, options=options)
    machine, seen = make(), []
    turn = session_on(machine, model).turn(
        PROMPT, 9, options=options, interactive=interactive, on_token=seen.append
    )
    assert turn.verified and turn.result.tokens == expected.result.tokens == seen
    assert machine.position == len(PROMPT) + 8 and machine.pending == seen[-1]
    assert turn.result.passes == expected.result.passes
    assert 5 not in seen or options is SAMPLED


def test_sampling_differs_from_greedy_and_between_seeds(model):
    texts = set()
    for options in (TurnOptions(), SAMPLED, TurnOptions(SAMPLED.sampling.with_seed(4)), PENALISED):
        turn = Session(ReferenceMachine(model), logit_scale=LOGIT_SCALE).turn(PROMPT, 9, options=options)
        texts.add(tuple(turn.result.tokens))
    assert len(texts) == 4


def test_a_resumed_run_needs_only_its_state_file(tmp_path, model, make):
    expected = Session(ReferenceMachine(model), logit_scale=LOGIT_SCALE).turn(PROMPT, 9, options=SAMPLED)
    first = session_on(make(), model)
    tokens = first.turn(PROMPT, 4, options=SAMPLED).result.tokens
    first.save(tmp_path / "state", SAMPLED.sampling)
    second = session_on(make(), model)
    sampling = second.load(tmp_path / "state")
    assert sampling == SAMPLED.sampling
    tokens += second.turn([], 5, options=TurnOptions(sampling)).result.tokens
    assert tokens == expected.result.tokens


@pytest.mark.parametrize("wanted", [Logits.CANDIDATES, Logits.GENERATED, Logits.ALL])
def test_logits_are_the_same_whoever_chooses(model, wanted, make):
    options = TurnOptions(SAMPLED.sampling, logits=wanted)
    results = [
        session_on(machine, model).turn(PROMPT, 5, options=options).result
        for machine in (ReferenceMachine(model), make())
    ]
    for name in ("logits", "candidates"):
        ours, theirs = (getattr(result, name) for result in results)
        assert (ours is None) == (theirs is None)
        assert ours is None or np.array_equal(ours, theirs)
    assert (results[0].logits is None) == (wanted is Logits.CANDIDATES)


def test_a_drawn_end_of_sequence_ends_the_turn_and_stays_pending(model, make):
    tokens = session_on(make(), model).turn(PROMPT, 9, options=SAMPLED).result.tokens
    eos = tokens[3]
    machine = make()
    result = session_on(machine, model, eos=eos).turn(PROMPT, 9, options=SAMPLED).result
    assert result.tokens == tokens[: tokens.index(eos) + 1] and result.stop_reason == "eos"
    assert machine.pending == eos


def test_a_stopped_turn_loses_nothing(model):
    """The turn after a stop equals a reference that was given the same tokens."""
    machine = ReferenceMachine(model)
    session, seen = session_on(machine, model), []
    turn = session.turn(
        PROMPT,
        9,
        interactive=True,
        on_token=seen.append,
        should_stop=lambda: len(seen) == 3,
        options=SAMPLED,
    )
    assert turn.result.stop_reason == "stop" and turn.result.tokens == seen and len(seen) == 3
    following = session.turn([11, 12], 4, options=SAMPLED).result.tokens
    other = Session(ReferenceMachine(model), logit_scale=LOGIT_SCALE)
    assert other.turn([*PROMPT, *seen, 11, 12], 4, options=SAMPLED).result.tokens == following


def test_a_device_that_can_do_neither_refuses_and_keeps_its_session(model):
    machine = Neither(model)
    session = Session(machine, logit_scale=LOGIT_SCALE)
    with pytest.raises(UserError, match="cannot sample"):
        session.turn(PROMPT, 3, options=SAMPLED)
    with pytest.raises(UserError, match="gives no logits back"):
        session.turn(PROMPT, 3, options=TurnOptions(penalties=Penalties(banned={1})))
    with pytest.raises(UserError, match="gives no logits back"):
        session.turn(PROMPT, 3, options=TurnOptions(logits=Logits.CANDIDATES))
    assert machine.position == 0
    assert session.turn(PROMPT, 2).result.tokens == ReferenceMachine(model).run(PROMPT, 2, None).tokens


def test_a_wrong_logit_of_a_card_is_noticed(model, card):
    card.logit_error = 1
    with pytest.raises(VerificationError, match="the tokens agree, but logits"):
        options = TurnOptions(SAMPLED.sampling, logits=Logits.GENERATED)
        session_on(open_accelerator(card), model).turn(PROMPT, 2, options=options)


@pytest.mark.parametrize("field", ["logits", "candidates"])
def test_verification_names_a_wrong_logit(model, field):
    class Wrong(ReferenceMachine):
        def run(self, *arguments, **values):
            result = super().run(*arguments, **values)
            array = getattr(result, field)
            if array is not None:
                array[0].flat[1] += 1
            return result

    wanted = Logits.GENERATED if field == "logits" else Logits.CANDIDATES
    with pytest.raises(VerificationError, match=rf"the tokens agree, but {field}\[0, "):
        session_on(Wrong(model), model).turn(PROMPT, 2, options=TurnOptions(logits=wanted))
