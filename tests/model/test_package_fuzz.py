"""Packages with any damage behind a manifest that agrees: loaded, or refused in a sentence."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.package import CONFIG, TOKENIZER, WEIGHTS, PackageMeta, load_package, save_package
from symlight.model.tokenizer import Tokenizer
from tests.benches.model.package_damage import reseal
from tests.benches.model.trained_tokenizers import KINDS, trained

pytestmark = pytest.mark.timeout(120)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
bounded = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def damaged(data, content: bytes, first: int = 0) -> bytes:
    """`content` with a few bytes changed from `first` on, or cut."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(first, len(changed) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(first, len(changed))) if data.draw(st.booleans()) else len(changed)
    return bytes(changed[:end])


def loaded_or_refused(path) -> None:
    try:
        load_package(path)
    except UserError as error:
        assert str(path) in str(error)


@bounded
@given(data=st.data())
def test_configs(copy, data):
    config = json.loads((copy / CONFIG).read_text())
    before = (copy / CONFIG).read_bytes()
    place = data.draw(st.sampled_from([config, config["shape"], config["numerics"]]))
    place[data.draw(st.sampled_from([*place, "more"]))] = data.draw(JSON)
    (copy / CONFIG).write_text(json.dumps(config))
    reseal(copy)
    loaded_or_refused(copy)
    (copy / CONFIG).write_bytes(before)


@bounded
@given(data=st.data())
def test_weights(copy, data):
    before = (copy / WEIGHTS).read_bytes()
    header = 8 + int.from_bytes(before[:8], "little")
    content = damaged(data, before[:header]) + before[header:]
    (copy / WEIGHTS).write_bytes(content)
    reseal(copy)
    loaded_or_refused(copy)
    (copy / WEIGHTS).write_bytes(before)


@bounded
@given(kind=st.sampled_from(sorted(KINDS)), data=st.data())
def test_tokenizers(kind, data):
    model = trained(kind)
    try:
        # the end of the file holds the rules, the beginning the pieces
        tokenizer = Tokenizer(
            damaged(data, model, data.draw(st.sampled_from([0, len(model) - 300]))), "my.model"
        )
    except UserError as error:
        assert "my.model" in str(error)
        return
    tokens = tokenizer.encode("the cat é\n") + tokenizer.encode(" sat", continues=True)
    tokenizer.unknown("the 日")
    text, stream = tokenizer.decode([*tokens, *range(tokenizer.size)]), tokenizer.stream(tokens)
    assert isinstance(text, str) and isinstance(stream.push(0) + stream.flush(), str)


def test_a_piece_that_is_no_text_is_refused(tmp_path, odd_model):
    model = trained("symbols").replace(b"the", b"t\xff\xff")
    with pytest.raises(UserError, match="my.model is not a SentencePiece model"):
        Tokenizer(model, "my.model")
    save_package(tmp_path / "p", odd_model, PackageMeta(name="x"), model)
    with pytest.raises(UserError, match=TOKENIZER):
        load_package(tmp_path / "p").tokenizer  # noqa: B018
