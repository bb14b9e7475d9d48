"""A package whose texts begin with a token: every command puts it there, once."""

import shutil
from dataclasses import replace

import pytest

import symlight as library
from symlight.model.package import load_package, save_package
from tests.benches.host.host_bench import give_lines

BOS = 1


@pytest.fixture
def begun(tmp_path, scaled_path):
    package = load_package(scaled_path)
    meta = replace(package.meta, bos=BOS, prepend_bos=True)
    save_package(tmp_path / "begun", package.model, meta, package.tokenizer_bytes)
    return tmp_path / "begun"


def test_generate(symlight, begun, package, tmp_path):
    words, state = package.tokenizer.encode("the word"), tmp_path / "state"
    common = ("generate", "--model", begun, "--device", "reference", "--max-new-tokens", 2, "--json")
    first = symlight(*common, "--prompt", "the word", "--save-state", state).json
    assert first["prompt_tokens"] == [BOS, *words]
    assert symlight(*common, "--prompt", "the word", "--load-state", state).json["prompt_tokens"] == words
    assert symlight(*common, "--prompt-ids", "5 6").json["prompt_tokens"] == [5, 6]
    assert symlight(*common, "--prompt", "").json["prompt_tokens"] == [BOS]


def test_chat_begins_with_it_and_after_a_reset_again(symlight, begun, monkeypatch, tmp_path):
    give_lines(monkeypatch, ["the", "dark", f"/save {tmp_path / 'state'}", "/reset", "the"])
    result = symlight(
        "chat", "--model", begun, "--device", "reference", "--max-new-tokens", 1, "--temperature", 0
    )
    assert result.code == 0, result.err
    with library.open_model(str(begun), device="reference") as model:
        assert model.load_session(tmp_path / "state").tokens.count(BOS) == 1
        prompt = len(model.encode("the"))
    assert " ".join(result.err.split()).count(f"{prompt} prompt tokens") >= 2


def test_the_library(begun):
    with library.open_model(str(begun), device="reference") as model:
        session = model.session()
        first = session.complete("the word", max_new_tokens=1)
        second = session.complete(" was", max_new_tokens=1)
        assert first.prompt[0].id == BOS and first.prompt[0].text == ""
        assert BOS not in [token.id for token in second.prompt]
        assert session.tokens == [token.id for done in (first, second) for token in done.prompt + done.tokens]
        assert model.complete(model.encode("the word"), max_new_tokens=1).ids == first.ids
        scored = model.score("the word")
        assert scored[0].logprob is None and scored[1].logprob is not None


def test_the_package_stays_readable(symlight, begun, package, tmp_path):
    about = symlight("inspect", begun, "--json").json
    assert (about["bos"], about["prepend_bos"]) == (BOS, True)
    shutil.copytree(package.path, tmp_path / "old")
    about = symlight("inspect", tmp_path / "old", "--json").json
    assert (about["bos"], about["prepend_bos"]) == (None, False)
