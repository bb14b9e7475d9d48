"""The text of a session does not depend on where its turns end."""

import functools
import io
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

import symlight
from symlight.model.config import preset
from symlight.model.package import PackageMeta, load_package, save_package
from symlight.model.synthetic import random_model

pytestmark = pytest.mark.timeout(120)
TEXT = "the cat sat on the mat and the dog sat on the cat, said the bird to the dog.\nIn the beginning.\n"
KINDS = {
    "dummy prefix": {},
    "blanks kept": {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "as it is": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
    },
}
SAMPLING = symlight.SamplingOptions(
    temperature=20.0, seed=1
)  # nearly any token: bytes, blanks, control tokens


@functools.cache
def opened(kind: str) -> symlight.Model:
    """A small random model with a byte-fallback tokenizer, on the reference."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 3),
        model_writer=written,
        vocab_size=290,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **KINDS[kind],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "package"
        model = random_model(replace(preset("odd"), vocab=300), 3)
        save_package(path, model, PackageMeta(name="odd", logit_scale=0.01), written.getvalue())
        package = load_package(path)
    return symlight.open_model(package, device="reference")


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 1 << 20),
    st.sampled_from(["the cat", "é", "a "]),
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=5),
)
def test_turns_joined_are_one_run(kind, seed, prompt, turns):
    """Turns of n tokens each, one run or token by token, some after a save and a load."""
    model = opened(kind)
    options = replace(SAMPLING, seed=seed)
    count = sum(n for n, _, _ in turns)
    whole = model.complete(prompt, max_new_tokens=count, sampling=options, eos=None)
    session, texts, ids = model.session(), [], []
    for index, (n, reloaded, stepwise) in enumerate(turns):
        if reloaded and index:
            with tempfile.TemporaryDirectory() as folder:
                session.save(Path(folder) / "session.npz")
                session = model.load_session(Path(folder) / "session.npz")
        text = "" if index else prompt
        if stepwise:
            tokens = list(session.generate(text, max_new_tokens=n, sampling=options, eos=None))
            if not n:  # an iterator that gives nothing ingests nothing
                session.complete(text, max_new_tokens=0)
            texts += [token.text for token in tokens]
            ids += [token.id for token in tokens]
        else:
            done = session.complete(text, max_new_tokens=n, sampling=options, eos=None)
            assert done.text == "".join(token.text for token in done.tokens)
            texts.append(done.text)
            ids += done.ids
    assert ids == whole.ids
    assert "".join(texts) == whole.text


def test_a_session_without_its_tokens_goes_on_within_the_text():
    model = opened("dummy prefix")
    session = model.session()
    session.complete("the cat", max_new_tokens=1)
    other = model.session()
    other.restore(session.state())
    assert other.tokens == [session.tokens[-1]]
    blank = model.tokenizer.encode(" the", continues=True)
    assert model.tokenizer.stream(other.tokens, begun=True).push(blank[0]).startswith(" ")


def test_a_prompt_that_goes_on_gets_no_blank():
    model = opened("dummy prefix")
    session = model.session()
    prompt = [
        *session.complete("the", max_new_tokens=0).prompt,
        *session.complete("n", max_new_tokens=0).prompt,
    ]
    assert "".join(token.text for token in prompt) == "then"
