"""The soak: its plan, its counts, the defects that it sees, its record and its command line."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.verify import VerificationError
from symlight.host.soak.record import Record, read_record, write_record
from symlight.host.soak.soak import PROBE_EVERY, Limit, Soak, wraps
from symlight.model.config import preset

SETTINGS = {"seed": 5, "device": "broken", "build_id": None}


def soak(machine, model, turns=60, record=None, on_turn=lambda record: None):
    """A soak of so many turns; gives its record and what was saved."""
    saved = []
    record = record or Record(dict(SETTINGS))

    def save(record):
        saved.append(record.to_json())

    Soak(machine, model, record, save=save, on_turn=on_turn).run(Limit(turns=turns))
    return record, saved


@given(st.sampled_from(["tiny", "odd", "wide"]), st.integers(0, 200))
def test_wraps_count_returns_to_the_first_slot_of_the_window(name, position):
    shape = preset(name)
    returns = [p for p in range(shape.slots, position) if shape.slot(p) == shape.anchors]
    assert wraps(shape, position) == len(returns)


# ---- counts ------------------------------------------------------------------------------------------------


class Counted(ReferenceMachine):
    """A machine that counts what is done with it."""

    def __init__(self, model):
        super().__init__(model)
        self.done = dict.fromkeys(("runs", "passes", "prompt_tokens", "new_tokens", "resets", "writes"), 0)
        self.probes: list[int] = []  # runs before each reading of the state

    def run(self, prompt, n_new, eos, *more):
        result = super().run(prompt, n_new, eos, *more)
        found = {"runs": 1, "passes": result.passes, "new_tokens": len(result.tokens)}
        for name, value in (found | {"prompt_tokens": len(prompt)}).items():
            self.done[name] += value
        return result

    def reset(self):
        super().reset()
        self.done["resets"] += 1

    def write_state(self, state):
        super().write_state(state)
        self.done["writes"] += 1


def test_counts_are_what_was_done(model):
    machine = Counted(model)
    record, saved = soak(machine, model, turns=100)
    counts = record.counts
    assert counts.turns == 100 and record.failure is None
    assert machine.done == {
        name: getattr(counts, "loads" if name == "writes" else name) for name in machine.done
    }
    assert counts.state_probes >= 100 / PROBE_EVERY
    assert 0 < counts.single_turns < 100 and counts.empty_turns > 0 and counts.eos_stops > 0
    assert counts.saves > 0 and counts.loads > 0 and counts.resets > counts.conversations
    assert counts.ring_wraps > counts.wrapped_conversations > 0
    assert saved[-1] == record.to_json() and json.loads(json.dumps(saved[-1])) == saved[-1]
    assert record.line().startswith("soak passed: 100 turns") and "\n" not in record.line()


def test_the_same_seed_gives_the_same_counts(model):
    first, second = (asdict(soak(ReferenceMachine(model), model)[0].counts) for _ in range(2))
    assert first == second
    other = soak(ReferenceMachine(model), model, record=Record(SETTINGS | {"seed": 6}))[0].counts
    assert asdict(other) != first


def test_some_turn_of_ten_is_probed(model, monkeypatch):
    """Whatever happens between the turns."""
    probes = []
    original = Soak._probe

    def probe(self):
        original(self)
        probes.append(self._record.counts.turns)

    monkeypatch.setattr(Soak, "_probe", probe)
    monkeypatch.setattr("symlight.host.soak.soak.wraps", lambda shape, position: 0)
    soak(ReferenceMachine(model), model, turns=100)
    assert max(np.diff([0, *probes, 100])) <= PROBE_EVERY


# ---- broken devices ----------------------------------------------------------------------------------------


class WrongToken(ReferenceMachine):
    def run(self, prompt, n_new, eos, *more):
        result = super().run(prompt, n_new, eos, *more)
        wrong = [*result.tokens[:-1], (result.tokens[-1] + 1) % self.shape.vocab] if n_new > 3 else None
        return result if wrong is None else replace(result, tokens=wrong)


class WrongEvents(ReferenceMachine):
    def run(self, prompt, n_new, eos, *more):
        result = super().run(prompt, n_new, eos, *more)
        result.active[-1, -1] += self.position > 20
        return result


class WrongPasses(ReferenceMachine):
    def run(self, prompt, n_new, eos, *more):
        result = super().run(prompt, n_new, eos, *more)
        return replace(result, prompt_passes=result.prompt_passes + (self.position > 20))


class NoEnd(ReferenceMachine):
    def run(self, prompt, n_new, eos, *more):
        return super().run(prompt, n_new, None, *more)


class OldRing(ReferenceMachine):
    """A wrapped ring keeps a stale element that no read ever needs."""

    def read_state(self):
        state = super().read_state()
        if state.position > state.shape.slots:
            state.ring_v[0, state.populated - 1, 0] ^= 1
        return state


class KeepsMembrane(ReferenceMachine):
    """RESET forgets the membrane."""

    def reset(self):
        membrane = self._reference.state.membrane.copy()
        super().reset()
        self._reference.state.membrane[:] = membrane


class LosesPending(ReferenceMachine):
    """A restored session has no pending token."""

    def write_state(self, state):
        super().write_state(state)
        self._reference.state.pending = None


class LosesDecay(ReferenceMachine):
    def write_state(self, state):
        super().write_state(state)
        self._reference.state.decay[-1, -1] += 1


class Faulty(ReferenceMachine):
    def run(self, prompt, n_new, eos, *more):
        if self.position > 30:
            raise UserError("a memory read failed")
        return super().run(prompt, n_new, eos, *more)


BROKEN = {
    WrongToken: "differs",
    WrongEvents: "event counts",
    WrongPasses: "prompt passes",
    NoEnd: "the device stopped after",
    OldRing: "ring v",
    KeepsMembrane: "layer 0, decay",
    LosesPending: "pending",
    LosesDecay: "decay state",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_device_is_seen(broken, model):
    record = Record(dict(SETTINGS))
    with pytest.raises(VerificationError, match=BROKEN[broken]) as caught:
        soak(broken(model), model, turns=400, record=record)
    assert record.failure == str(caught.value) and record.line().startswith("soak FAILED")
    assert "turn " in record.failure and "of seed 5: " in record.failure
    assert record.counts.turns < 400


def test_a_failure_comes_again_from_its_conversation(model):
    record = Record(dict(SETTINGS))
    with pytest.raises(UserError, match=r"conversation (\d+), turn \d+ of seed 5: a memory read failed"):
        soak(Faulty(model), model, record=record)
    number = int(record.failure.split()[1].rstrip(","))
    again = Record(dict(SETTINGS), next_conversation=number)
    with pytest.raises(UserError):
        soak(Faulty(model), model, record=again)
    assert again.failure == record.failure and again.counts.conversations == 1


# ---- record ------------------------------------------------------------------------------------------------


def test_an_interrupted_soak_keeps_its_turns_and_goes_on(model, tmp_path):
    file = tmp_path / "soak.json"

    def interrupt(record):
        if record.counts.turns == 17:
            raise KeyboardInterrupt

    record = Record(dict(SETTINGS))
    with pytest.raises(KeyboardInterrupt):
        _, saved = soak(ReferenceMachine(model), model, record=record, on_turn=interrupt)
    write_record(file, record)
    again = read_record(file, dict(SETTINGS))
    assert again == record and again.counts.turns == 17
    soak(ReferenceMachine(model), model, turns=40, record=again)
    assert again.counts.turns == 40 and again.sessions == 2
    assert again.next_conversation == again.counts.conversations > record.counts.conversations
    assert again.seconds > record.seconds


# ---- command line ------------------------------------------------------------------------------------------


@pytest.fixture
def command(symlight, package_path, tmp_path, fake_pyxrt, xclbin):
    """`symlight soak` on the fake card."""

    def call(*words):
        words = [*words, "--xclbin", xclbin, "--cache", tmp_path / "cache"]
        return symlight("soak", "--model", package_path, "--device", "xrt:0", *words)

    return call


def test_the_command_ends_with_one_line_and_goes_on(command, tmp_path):
    file = tmp_path / "soak.json"
    first = command("--turns", 12, "--out", file)
    assert first.code == 0 and first.out.count("\n") == 1
    assert first.out.startswith("soak passed: 12 turns in ")
    second = command("--turns", 20, "--out", file, "--json")
    record = second.json
    assert record == json.loads(file.read_text()) and record["counts"]["turns"] == 20
    assert record["sessions"] == 2 and "soak passed: 20 turns" in second.err
    assert command("--turns", 20, "--out", file, "--json").json["counts"] == record["counts"]
    assert command("--minutes", 0.001, "--json").json["counts"]["turns"] >= 1


def test_a_difference_has_exit_code_1_and_is_recorded(command, fake_pyxrt, tmp_path):
    file = tmp_path / "soak.json"
    result = command("--turns", 8, "--json")
    assert result.json["counts"]["cycles"] > 0 and int(result.json["settings"]["build_id"], 16)
    fake_pyxrt.tokens = [1, 2, 3]
    failed = command("--turns", 8, "--out", file)
    assert "differs" in failed.error(1) and failed.out.startswith("soak FAILED")
    assert "differs" in json.loads(file.read_text())["failure"]
    assert "records a failure" in command("--turns", 8, "--out", file).error()


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "give one limit"),
        (["--turns", 3, "--minutes", 3], "give one limit"),
        (["--turns", 3, "--out", "/nowhere/soak.json"], "/nowhere does not exist"),
        (["--turns", 3, "--out", "x", "--first-conversation", 1], "takes no --out"),
        (["--turns", 0], "--turns"),
    ],
)
def test_bad_command_lines(command, words, sentence):
    result = command(*words)
    assert sentence in result.error() and not result.out


def test_the_reference_is_not_soaked(symlight, package_path):
    result = symlight("soak", "--model", package_path, "--device", "reference", "--turns", 3)
    assert "cannot be compared with itself" in result.error()
