"""`symlight eval` of V2 packages: the figures of model.evaluate, on several devices, and resumable."""

import json
import math

import numpy as np
import pytest

from symlight.host.measure import evaluation
from symlight.host.measure.evaluation import Sums
from symlight.model.evaluate import evaluate as evaluate_sequences

SEQUENCE = 12
TEXT = "In the beginning God created the heaven and the earth. And the earth was without form, and void.\n"


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture
def evaluated(symlight, text):
    """`symlight eval` of the shipped model."""
    return lambda *words: symlight("eval", "demo", text, "--sequence", SEQUENCE, "--json", *words)


@pytest.fixture(scope="module")
def demo():
    from symlight.host.device.packages import open_package

    return open_package("demo")


@pytest.mark.timeout(60)
def test_the_figures_are_those_of_the_sequence_model(evaluated, demo):
    tokens = np.array(demo.encode(TEXT))
    expected = evaluate_sequences(demo.model, demo.meta.logit_scale, tokens, SEQUENCE)
    found = evaluated().json
    assert found["predictions"] == expected.predictions == len(tokens) - 1
    integer = found["integer"]
    assert integer["perplexity"] == pytest.approx(expected.perplexity, rel=1e-12)
    assert integer["top_1"] == pytest.approx(expected.accuracy)
    first = len(demo.tokenizer.decode(tokens[:1].tolist()).encode())
    assert found["bytes"] == len(TEXT.encode()) - first
    loss = expected.loss * expected.predictions / math.log(2)
    assert integer["bits_a_byte"] == pytest.approx(loss / found["bytes"])
    assert integer["top_1"] <= integer["top_5"] <= 1
    assert evaluated("--device", "reference").json["integer"] == integer


def test_an_interrupted_evaluation_goes_on(evaluated, tmp_path, monkeypatch):
    record = tmp_path / "record.json"
    whole = evaluated().json
    writes = []
    write = evaluation.write_json

    def interrupted(file, content):
        write(file, content)
        writes.append(content)
        if len(writes) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "write_json", interrupted)
    assert evaluated("--record", record).code != 0
    assert json.loads(record.read_text())["predictions"] == 2 * SEQUENCE
    assert evaluated("--record", record).json == whole
    done = [one["predictions"] for one in writes]
    assert done == sorted(set(done)), "a piece was evaluated twice"
    count = len(writes)
    assert evaluated("--record", record).json == whole and len(writes) == count
    assert (
        "records an evaluation with another sequence"
        in evaluated("--record", record, "--sequence", 7).error()
    )
    record.write_text("[]")
    assert "is not the record of an evaluation" in evaluated("--record", record).error()


def test_a_float_model_beside_it(evaluated, text, monkeypatch, demo):
    """A stand-in that gives the integer model's own logits agrees with it in everything."""
    scale = demo.meta.logit_scale
    from symlight.model.sequence import SequenceModel

    def stand_in(checkpoint):
        runner = SequenceModel(demo.model)
        return lambda tokens: np.concatenate(list(runner.logits(tokens[None]))) * scale

    monkeypatch.setattr(evaluation, "float_logits", stand_in)
    found = evaluated("--float", text).json
    assert found["greedy_agreement"] == 1 and found["float"] == pytest.approx(found["integer"])
    monkeypatch.setattr(evaluation, "float_logits", lambda _: lambda tokens: -stand_in(None)(tokens))
    assert evaluated("--float", text).json["greedy_agreement"] == 0


def test_places():
    sums = Sums()
    logits = np.array([[3.0, 3, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 9, 0], [5, 4, 3, 2, 1, 0, 0]])
    sums.add(logits, np.array([1, 5, 5]))
    assert (sums.top_1, sums.top_5) == (1, 2)  # a tie for the first place; right; the sixth place
    expected = -np.log(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))[[0, 1, 2], [1, 5, 5]].sum()
    assert sums.loss == pytest.approx(expected)


def test_what_cannot_be_evaluated(symlight, evaluated, package_path, text, tmp_path):
    assert "does not say what a unit" in symlight("eval", package_path, text).error()
    assert "cannot be read" in symlight("eval", "demo", tmp_path / "none").error()
    assert "does not exist" in evaluated("--float", tmp_path / "none").error()
    text.write_text("")
    assert "leave nothing to predict" in evaluated().error()
