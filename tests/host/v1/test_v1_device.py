"""The command line with a V1 package: texts on the CPU engine, one sentence wherever V2 is needed."""

import io
import json

import numpy as np
import pytest

import symlight
from symlight.base.errors import UserError
from symlight.host import cli
from symlight.model.sampling import SamplingOptions
from symlight.model.v1.float_model import FloatV1
from symlight.model.v1.package import LOGIT_SCALE, V1Meta, load_v1, save_v1
from tests.benches.host.v1_pieces import TEXT, pieces
from tests.benches.model.v1_worlds import model

pytestmark = pytest.mark.timeout(240)  # the first test compiles
PIECES = 32


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package whose vocabulary is larger than its tokenizer, as that of the public 0.8B model."""
    path = tmp_path_factory.mktemp("v1") / "tiny"
    shape, tensors, _ = model(21, vocab=40)
    meta = V1Meta(name="tiny", synthetic=True, pad=0, bos=1, eos=2, unk=3)
    save_v1(path, shape, meta, tensors.items(), pieces(PIECES))
    return load_v1(path)


def greedy(package, prompt, count, eos=None):
    """Tokens of the float model."""
    runner = FloatV1(package.shape, package.float_tensors())
    state, tokens, given = runner.start(), [], prompt
    while len(tokens) < count and (not tokens or tokens[-1] != eos):
        logits = runner.advance(state, given)[-1]
        tokens.append(int(logits[:PIECES].argmax()))
        given = tokens[-1:]
    return tokens


def run(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    output = capsys.readouterr()
    assert code == 0, output.err
    return output.out


def test_generate(package, capsys):
    arguments = ["generate", "--model", package.path, "--device", "cpu:2", "--prompt", "the word", "--json"]
    answer = json.loads(run(capsys, *arguments, "--max-new-tokens", 20))
    prompt = package.encode("the word")
    assert prompt[0] == 1 and prompt.count(1) == 1  # the beginning of a text
    assert answer["prompt_tokens"] == prompt
    assert answer["tokens"] == greedy(package, prompt, 20, eos=2)
    assert all(token < PIECES for token in answer["tokens"])
    assert answer["device"] == "cpu:2"
    density = answer["density"]
    assert density["qkv"] == density["up"] == 1
    assert 0 < density["decay"] < 0.5 and 0 < density["down"] < 0.5
    ids = " ".join(map(str, prompt))
    again = run(
        capsys, "generate", "--model", package.path, "--prompt-ids", ids, "--json", "--max-new-tokens", 20
    )
    assert json.loads(again)["tokens"] == answer["tokens"]  # on its default device


def test_a_conversation_begins_once(package, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("the word\nwas\n/save x\n/quit\n"))
    code = cli.run(["chat", "--model", str(package.path), "--temperature", "0", "--max-new-tokens", "4"])
    output = capsys.readouterr()
    assert code == 0 and "cannot be saved" in output.err
    tokenizer, texts = package.tokenizer, output.out.split("\n")
    first = package.encode("the word")
    told = greedy(package, first, 4, eos=2)
    second = [*first, *told, *tokenizer.encode("\nwas", continues=True)]
    assert texts[0].strip() == tokenizer.decode([*first, *told])[len(tokenizer.decode(first)) :].strip()
    told = greedy(package, second, 4, eos=2)
    assert texts[1].strip() == tokenizer.decode([*second, *told])[len(tokenizer.decode(second)) :].strip()


def test_the_library(package):
    with symlight.open_model(package.path, "cpu") as opened:
        tokens = opened.encode("in the beginning was the light")
        logits = opened.logits(tokens)
        expected = FloatV1(package.shape, package.float_tensors()).logits(tokens)
        assert np.abs(logits[:, :PIECES] * LOGIT_SCALE - expected[:, :PIECES]).max() < 1e-4
        probabilities = np.exp(opened.log_probabilities(tokens))
        assert np.allclose(probabilities.sum(1), 1)
        assert (probabilities[:, PIECES:] == 0).all()  # no text has these rows
        warm = SamplingOptions(temperature=1.5, seed=5)
        first = opened.complete(tokens, max_new_tokens=12, sampling=warm, eos=None)
        other = opened.complete(tokens, max_new_tokens=12, sampling=warm.with_seed(6), eos=None)
        again = opened.complete(tokens, max_new_tokens=12, sampling=warm, eos=None)
        drawn = [[token.id for token in done.tokens] for done in (first, other, again)]
        assert drawn[0] == drawn[2] != drawn[1]
        one, two = opened.session(), opened.session()  # two texts on one device
        parts = []
        for _ in range(4):
            parts += [token.id for token in one.generate(() if parts else tokens, max_new_tokens=1, eos=None)]
            list(two.generate("all day", max_new_tokens=2, eos=None))
        assert parts == greedy(package, tokens, 4)


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["generate", "--device", "sim", "--prompt", "the"], ["device 'sim' cannot run", "--device cpu"]),
        (["generate", "--device", "reference", "--prompt", "the"], ["'reference' cannot run"]),
        (["generate", "--device", "cpu:none", "--prompt", "the"], ["number of threads"]),
        (["generate", "--verify", "--prompt", "the"], ["--verify"]),
        (["generate", "--save-state", "FILE", "--prompt", "the"], ["cannot be saved"]),
        (["generate", "--load-state", "FILE", "--prompt", "the"], ["cannot be loaded"]),
        (["generate", "--prompt-ids", "40"], ["token 40 is outside"]),
        (["selftest", "--device", "sim"], ["package of SymbolicLight V1", "SymbolicLight V2 is needed"]),
        (["verilog", "--out", "FILE"], ["package of SymbolicLight V1", "SymbolicLight V2 is needed"]),
    ],
)
def test_one_sentence(package, tmp_path, capsys, arguments, parts):
    arguments = [str(tmp_path / "f") if argument == "FILE" else argument for argument in arguments]
    assert cli.run([*arguments, "--model", str(package.path)]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    for part in parts:
        assert part in error, error
    assert list(tmp_path.iterdir()) == []


def test_inspect(package, capsys):
    about = json.loads(run(capsys, "inspect", package.path, "--json"))
    assert "SymbolicLight V1" in about["kind"] and about["special_tokens"]["bos"] == 1
    assert about["shape"]["slots"] == package.shape.slots
    assert "--device cpu" in run(capsys, "inspect", package.path)


def test_an_interrupted_run_loses_the_session(package):
    def stop(token):
        raise KeyboardInterrupt

    with symlight.open_model(package.path, "cpu") as opened:
        machine = opened.machine
        with pytest.raises(KeyboardInterrupt):
            machine.run([1, 5], 3, None, stop)
        with pytest.raises(UserError, match="interrupted"):
            machine.run([5], 1, None)
        machine.reset()
        assert machine.run([1, 5], 3, None).tokens == greedy(package, [1, 5], 3)


def test_eval(package, tmp_path, capsys):
    text = " ".join(TEXT * 6)
    (tmp_path / "text").write_text(text)
    arguments = ["eval", package.path, tmp_path / "text", "--sequence", 70]
    found = json.loads(run(capsys, *arguments, "--json"))
    tokens = np.array(package.encode(text))
    assert len(tokens) > 140  # pieces longer than a chunk, and a shorter last one
    runner, loss, best, top, count = FloatV1(package.shape, package.float_tensors()), 0.0, 0, 0, 0
    for piece in (tokens[i : i + 70] for i in range(0, len(tokens), 70)):
        if len(piece) < 2:
            continue
        for row, target in zip(runner.logits(piece[:-1]).astype(np.float64), piece[1:], strict=True):
            order = np.argsort(-row)
            loss += np.log(np.exp(row - row.max()).sum()) + row.max() - row[target]
            best, top, count = best + (order[0] == target), top + (target in order[:5]), count + 1
    assert found["predictions"] == count and found["tokens"] == len(tokens)
    assert found["loss"] == pytest.approx(loss / count, abs=1e-4)
    assert found["perplexity"] == pytest.approx(np.exp(loss / count), rel=1e-3)
    assert found["bits_per_byte"] == pytest.approx(
        loss / count * len(tokens) / np.log(2) / len(text), rel=1e-4
    )
    assert (found["top1"], found["top5"]) == (best / count, top / count)
    assert "bits per byte" in run(capsys, *arguments)
    (tmp_path / "text").write_text("")
    assert cli.run(["eval", str(package.path), str(tmp_path / "text")]) == 2
    assert "at least 2" in capsys.readouterr().err


def test_profile(package, capsys):
    arguments = ["profile", package.path, "--prompt", "the word was", "--max-new-tokens", 9]
    found = json.loads(run(capsys, *arguments, "--json"))
    prompt = package.encode("the word was")
    tokens = [*prompt, *greedy(package, prompt, 9)]  # the last is ingested, too
    runner = FloatV1(package.shape, package.float_tensors())
    state = runner.start()
    runner.advance(state, tokens[:1])
    before = runner.counts.tcam.copy(), runner.counts.down.copy()
    runner.advance(state, tokens[1:])
    count = found["positions"]
    assert count == len(tokens) - 1
    for layer, row in enumerate(found["densities"]):
        tcam = (runner.counts.tcam - before[0])[layer] / count / package.shape.width
        down = (runner.counts.down - before[1])[layer] / count / package.shape.ffn
        assert (row["tcam"], row["down"]) == pytest.approx((tcam, down))
    assert found["dense_multiply_accumulates"] == package.shape.multiply_accumulates
    assert found["multiply_accumulates"] < found["dense_multiply_accumulates"]
    assert found["phases"]["up"]["microseconds"] > 0
    assert "work done" in run(capsys, *arguments)
