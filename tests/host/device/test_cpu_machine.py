"""`--device cpu`: the runs of the reference, in everything that a run gives."""

from dataclasses import replace

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.cpu.build import COMPILER
from symlight.cpu.engine import CHUNK, Engine
from symlight.cpu.weights import Weights
from symlight.host.device import opening as device
from symlight.host.device.choosing import Logits, RunOptions
from symlight.host.device.cpu_machine import CpuMachine
from symlight.host.device.packages import open_package
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.verify import VerificationError, Verifier
from symlight.model.sampling import SamplerSettings, SamplingOptions

SETTINGS = SamplerSettings.of(SamplingOptions(temperature=0.8, seed=5), 1e-5)
FIELDS = ("tokens", "stop_reason", "prompt_passes", "decode_passes")


@pytest.fixture
def pair(model):
    machine = CpuMachine(Engine(Weights.pack(model), 1))
    yield machine, ReferenceMachine(model)
    machine.close()


@pytest.fixture
def drafting_pair(model):
    machine = CpuMachine(Engine(Weights.pack(model), 1), drafts=True)
    yield machine, ReferenceMachine(model)
    machine.close()


def both(pair, *arguments, **options):
    """The same run on both, compared."""
    ours, theirs = (machine.run(*arguments, **options) for machine in pair)
    for name in FIELDS:
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("active", "logits", "candidates"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert pair[0].read_state() == pair[1].read_state()
    assert (pair[0].position, pair[0].pending) == (pair[1].position, pair[1].pending)
    return ours


@pytest.mark.timeout(60)
@pytest.mark.parametrize("logits", Logits)
@pytest.mark.parametrize("settings", [None, SETTINGS], ids=["greedy", "sampled"])
def test_runs(pair, logits, settings):
    options = RunOptions(settings, logits)
    for prompt, n_new in (([3], 5), ([], 3), ([1, 2, 3], 0), ([], 2), (list(range(CHUNK + 9)), 4)):
        both(pair, prompt, n_new, None, options=options)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("settings", [None, SETTINGS], ids=["greedy", "sampled"])
@pytest.mark.parametrize("wrong", [None, 0, 4, 19])
def test_a_guess_changes_only_the_time(pair, model, settings, wrong):
    options, eos = RunOptions(settings, Logits.ALL), None
    guess = ReferenceMachine(model).run([3, 1, 4], 20, eos, options=options).tokens
    if wrong is not None:
        guess[wrong] = (guess[wrong] + 1) % model.shape.vocab
    pair[0].guess(guess)
    run, passes = pair[0].engine.run, []
    pair[0].engine.run = lambda feeds: passes.append(feeds) or run(feeds)
    both(pair, [3, 1, 4], 20, eos, options=options)
    # the prompt, the guessed tokens, and after a wrong one a pass for each token
    assert len(passes) == 2 + (0 if wrong is None else 19 - wrong)
    both(pair, [], 3, eos, options=options)  # the guess was for one run


def test_a_wrong_token_is_found_though_it_was_guessed(pair, model):
    device = pair[1]
    result = device.run([3], 8, None)
    tokens = [*result.tokens[:5], (result.tokens[5] + 1) % model.shape.vocab, *result.tokens[6:]]
    verifier = Verifier(model, golden=pair[0])
    with pytest.raises(VerificationError, match=f"token 5 differs: the device says {tokens[5]}"):
        verifier.check_run(device, [3], 8, None, replace(result, tokens=tokens))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("logits", Logits)
@pytest.mark.parametrize("settings", [None, SETTINGS], ids=["greedy", "sampled"])
def test_drafts_change_nothing(drafting_pair, logits, settings):
    """Prompts that repeat themselves, so that there are drafts, and drafts that the model does not follow."""
    options = RunOptions(settings, logits)
    proposed = 0
    for prompt, n_new in (([3, 4, 5, 6] * 4, 20), ([], 30), ([1, 2, 1, 2, 1], 1), ([9] * 9, 13), ([], 2)):
        drafts = both(drafting_pair, prompt, n_new, None, options=options).drafts
        proposed += drafts.proposed
        assert 0 <= drafts.accepted <= drafts.proposed and drafts.passes <= n_new
    assert proposed


@pytest.mark.timeout(60)
def test_drafts_of_a_text_that_repeats_itself_are_accepted():
    """The shipped model's greedy text turns into a refrain."""
    model = open_package("demo").model
    with Engine(Weights.pack(model), 1) as engine:
        pair = CpuMachine(engine, drafts=True), ReferenceMachine(model)
        both(pair, [5, 6], 60, None)
        drafts = both(pair, [], 60, None).drafts
        assert drafts.share > 0.4 and drafts.passes < 30  # 60 without drafts
        tokens = both(pair, [], 40, None).tokens
        assert both(pair, [], 100, tokens[17]).stop_reason == "eos"
        state = pair[0].read_state()
        for machine in pair:
            machine.write_state(state)
        both(pair, [1, 2, 3], 30, None)
        for machine in pair:
            machine.replace_pending(7)
        both(pair, [], 30, None)


def test_end_of_sequence(pair):
    tokens = both(pair, [4, 5], 8, None).tokens
    for machine in pair:
        machine.reset()
    assert both(pair, [4, 5], 8, tokens[2]).stop_reason == "eos"
    both(pair, [6], 3, None)


def test_states_are_exchanged(pair):
    ours, theirs = pair
    ours.run([1, 2, 3], 4, None)
    theirs.write_state(ours.read_state())
    both(pair, [], 9, None)
    ours.reset()
    assert ours.position == 0 and ours.pending is None
    ours.write_state(theirs.read_state())
    both(pair, [9], 9, None)
    for machine in pair:
        machine.replace_pending(7)
    both(pair, [], 1, None)


def test_refused_before_anything_changes(pair):
    ours, theirs = pair
    for arguments in (([], 3, None), ([160], 1, None), ([1], -1, None)):
        messages = []
        for machine in pair:
            with pytest.raises(UserError) as error:
                machine.run(*arguments)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    assert ours.read_state() == theirs.read_state()
    with pytest.raises(UserError, match="no token is pending"):
        ours.replace_pending(1)


def test_an_interrupted_session_must_be_reset(pair):
    ours, _ = pair

    def interrupt(token):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ours.run([1, 2], 5, None, on_token=interrupt)
    with pytest.raises(UserError, match="interrupted in the middle of a run"):
        ours.run([1], 1, None)
    ours.reset()
    both(pair, [1], 3, None)


# ---- command line ------------------------------------------------------------------------------------------


def test_the_default_device(symlight, package_path, model):
    report = symlight("generate", "--model", package_path, "--prompt-ids", "1 2", "--json", "--verify").json
    assert report["device"] == "cpu" and report["verified"] is True
    assert report["tokens"] == ReferenceMachine(model).run([1, 2], 64, 2).tokens


def test_threads(symlight, package_path):
    call = ("generate", "--model", package_path, "--prompt-ids", "1", "--json", "--device")
    assert symlight(*call, "cpu:2").json["tokens"] == symlight(*call, "reference").json["tokens"]
    for name in ("cpu:0", "cpu:x", "cpu:1000"):
        assert "the number of threads is 1..256" in symlight(*call, name).error()


def test_draft(symlight, package_path):
    call = ("generate", "--model", package_path, "--prompt-ids", "7 8 " * 9, "--json", "--verify", "--no-eos")
    report = symlight(*call, "--draft", "ngram").json
    assert report["drafts"]["proposed"] > 0 and report["verified"] is True
    plain = symlight(*call)
    assert plain.json["drafts"] is None and plain.json["tokens"] == report["tokens"]
    assert "does not draft" in symlight(*call, "--draft", "ngram", "--device", "reference").error()


def test_selftest(symlight, package_path):
    result = symlight("selftest", "--model", package_path, "--device", "cpu:1")
    assert result.code == 0 and result.out.endswith("selftest passed\n")


def test_without_a_compiler_the_reference_runs(symlight, package_path, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    result = symlight("generate", "--model", package_path, "--prompt-ids", "1", "--json")
    assert result.json["device"] == "reference"
    assert f"{COMPILER} not found" in result.err and "going on with the reference" in result.err


def test_machines_are_made_by_name(model):
    with device.OpenedDevice(device.DeviceOptions(device="cpu:1"), model) as machine:
        assert machine.name == "cpu:1" and machine.engine.threads == 1
