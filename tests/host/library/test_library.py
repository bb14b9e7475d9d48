"""The front door: models, sessions beside each other, log-probabilities, stop texts, saved sessions."""

import math

import numpy as np
import pytest

import symlight
from symlight import Penalties, SamplingOptions, UserError
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.library.session import CHUNK
from symlight.model.package import load_package
from symlight.model.reference import Reference
from tests.benches.host.host_bench import LOGIT_SCALE

PROMPT = [5, 6, 7, 8]
SAMPLED = SamplingOptions(temperature=0.9, top_p=0.95, min_p=0.01, seed=3)


@pytest.fixture(scope="session")
def scaled(scaled_path):
    return load_package(scaled_path)


@pytest.fixture
def opened(scaled):
    with symlight.open_model(scaled, verify=True) as model:
        yield model


def rows_after(model, tokens):
    reference = Reference(model)
    return np.stack([reference.ingest(token, want_logits=True).logits for token in tokens])


def log_softmax(row):
    x = [float(value) * LOGIT_SCALE for value in row]
    total = math.log(sum(math.exp(value - max(x)) for value in x)) + max(x)
    return [value - total for value in x]


def test_generate_and_complete_are_the_same_text(opened):
    for sampling in (symlight.SamplingOptions(), SAMPLED):
        tokens = list(opened.generate(PROMPT, max_new_tokens=9, sampling=sampling))
        whole = opened.complete(PROMPT, max_new_tokens=9, sampling=sampling)
        single = opened.complete(PROMPT, max_new_tokens=9, sampling=sampling, interactive=True)
        assert whole.ids == single.ids == [token.id for token in tokens]
        assert whole.text == single.text == "".join(token.text for token in tokens)
        assert whole.turn.verified and whole.sampling == sampling
        assert [token.position for token in whole.tokens] == list(range(4, 4 + len(tokens)))
        assert [token.position for token in tokens] == list(range(4, 4 + len(tokens)))


def test_sessions_beside_each_other_do_not_disturb_each_other(opened):
    """Three texts token by token in turn on one device are the texts that each is alone."""
    prompts = ([5, 6, 7], [9], [100, 3, 3, 8])
    samplings = [SAMPLED.with_seed(seed) for seed in range(3)]
    alone = [
        [token.id for token in opened.generate(prompt, max_new_tokens=12, sampling=sampling)]
        for prompt, sampling in zip(prompts, samplings, strict=True)
    ]
    running = [
        opened.session().generate(prompt, max_new_tokens=12, sampling=sampling)
        for prompt, sampling in zip(prompts, samplings, strict=True)
    ]
    texts = [[] for _ in prompts]
    for _ in range(12):
        for text, tokens in zip(texts, running, strict=True):
            token = next(tokens, None)
            text += [] if token is None else [token.id]
    assert texts == alone


def test_an_iterator_left_early_loses_nothing(opened):
    session, seen = opened.session(), []
    for token in session.generate(PROMPT, max_new_tokens=9, sampling=SAMPLED, eos=None):
        seen.append(token.id)
        if len(seen) == 3:
            break
    assert session.pending == seen[-1] and session.position == len(PROMPT) + 2
    rest = [token.id for token in session.generate(max_new_tokens=6, sampling=SAMPLED, eos=None)]
    whole = opened.complete(PROMPT, max_new_tokens=9, sampling=SAMPLED, eos=None)
    assert seen + rest == whole.ids


@pytest.mark.parametrize("how", ["generate", "complete"])
def test_a_stop_text_ends_exactly_and_the_next_turn_equals_the_reference(opened, scaled, how):
    whole = opened.complete(PROMPT, max_new_tokens=12, sampling=SAMPLED, eos=None)
    stop = next(token.text for token in whole.tokens[3:] if token.text.strip())
    session = opened.session()
    if how == "generate":
        ids = [
            token.id
            for token in session.generate(PROMPT, max_new_tokens=12, sampling=SAMPLED, eos=None, stop=[stop])
        ]
    else:
        done = session.complete(PROMPT, max_new_tokens=12, sampling=SAMPLED, eos=None, stop=["", stop])
        ids = done.ids
        assert done.stop_reason == "stop" and stop not in done.text
        assert whole.text.startswith(done.text + stop)
    assert ids == whole.ids[: len(ids)] and 0 < len(ids) < 12
    reference = ReferenceMachine(scaled.model)
    reference.run([*PROMPT, *ids], 0, None)
    assert session.state() == reference.read_state()
    following = session.complete([11, 12], max_new_tokens=5, eos=None).ids
    assert following == reference.run([11, 12], 5, None).tokens


def test_log_probabilities_are_those_of_the_logits_each_token_was_chosen_from(opened, scaled):
    done = opened.complete(
        PROMPT, max_new_tokens=5, sampling=SAMPLED, eos=None, logprobs=3, prompt_logprobs=2
    )
    text = done.prompt + done.tokens
    rows = rows_after(scaled.model, [token.id for token in text])
    assert text[0].logprob is None and text[0].alternatives is None
    for token, row, count in zip(text[1:], rows, [2] * 3 + [3] * 5, strict=False):
        exact = log_softmax(row.tolist())
        assert token.logprob == pytest.approx(exact[token.id], abs=1e-9)
        order = sorted(range(len(exact)), key=lambda i, exact=exact: (-exact[i], i))[:count]
        assert [other.id for other in token.alternatives] == order
        assert [other.logprob for other in token.alternatives] == pytest.approx([exact[i] for i in order])
    plain = opened.complete(PROMPT, max_new_tokens=5, sampling=SAMPLED, eos=None)
    assert plain.ids == done.ids
    for name in ("passes", "prompt_passes", "decode_passes"):
        assert getattr(plain.turn.result, name) == getattr(done.turn.result, name)
    given = list(opened.generate(PROMPT, max_new_tokens=5, sampling=SAMPLED, eos=None, logprobs=3))
    assert given == done.tokens


def test_logits_of_a_long_prompt_come_in_chunks_and_leave_the_session(opened, scaled):
    ids = np.random.default_rng(2).integers(0, scaled.shape.vocab, 2 * CHUNK + 7).tolist()
    session = opened.session()
    session.complete(PROMPT, max_new_tokens=2, eos=None)
    before, newest = session.state(), session.pending
    found = session.logits(ids)
    assert session.state() == before
    reference = Reference(scaled.model, before.copy())
    reference.ingest(newest)
    expected = np.stack([reference.ingest(token, want_logits=True).logits for token in ids])
    assert found.dtype == np.int64 and np.array_equal(found, expected)
    for count in (1, CHUNK, CHUNK + 1):
        assert np.array_equal(opened.logits(ids[:count]), rows_after(scaled.model, ids[:count]))
    scores = opened.score(ids, alternatives=1)
    table = opened.log_probabilities(ids)
    assert [token.logprob for token in scores[1:]] == [table[i, ids[i + 1]] for i in range(len(ids) - 1)]


def test_saved_sessions_continue_with_their_sampling(opened, tmp_path):
    whole = opened.complete(PROMPT, max_new_tokens=9, sampling=SAMPLED, eos=None)
    session = opened.session()
    first = session.complete(PROMPT, max_new_tokens=4, sampling=SAMPLED, eos=None).ids
    session.save(tmp_path / "session", SAMPLED)
    other = opened.load_session(tmp_path / "session")
    assert other.sampling == SAMPLED and other.pending == first[-1]
    assert first + other.complete(max_new_tokens=5, sampling=other.sampling, eos=None).ids == whole.ids
    copied = session.copy()
    assert copied.state() == session.state()
    assert copied.complete(max_new_tokens=5, sampling=SAMPLED, eos=None).ids == whole.ids[4:]
    session.reset()
    assert session.position == 0 and session.pending is None
    assert session.complete(PROMPT, max_new_tokens=9, sampling=SAMPLED, eos=None).ids == whole.ids


def test_penalties_reach_the_tokens(opened):
    plain = opened.complete(PROMPT, max_new_tokens=8, eos=None).ids
    banned = opened.complete(PROMPT, max_new_tokens=8, eos=None, penalties=Penalties(banned={plain[0]})).ids
    assert plain[0] not in banned and len(banned) == 8


@pytest.mark.parametrize(
    "values, words",
    [
        ({"prompt": []}, "nothing to run"),
        ({"prompt": [999]}, "token 999 is outside"),
        ({"max_new_tokens": -1}, "must not be negative"),
        ({"logprobs": 65}, "at most 64"),
        ({"eos": 12345}, "12345 is outside"),
        ({"penalties": Penalties(banned={999})}, "999 is outside"),
    ],
)
@pytest.mark.parametrize("how", ["generate", "complete"])
def test_wrong_values_are_refused_at_once(opened, how, values, words):
    session = opened.session()
    with pytest.raises(UserError, match=words):
        getattr(session, how)(**{"prompt": PROMPT, "max_new_tokens": 3} | values)
    assert session.position == 0


def test_without_a_logit_scale_there_are_logits_but_no_probabilities(package_path):
    with symlight.open_model(package_path) as model:
        assert model.logits(PROMPT).shape == (4, model.shape.vocab)
        for call in (
            lambda: model.generate(PROMPT, logprobs=0),
            lambda: model.score(PROMPT),
            lambda: model.log_probabilities(PROMPT),
            lambda: model.complete(PROMPT, sampling=SAMPLED),
        ):
            with pytest.raises(UserError, match="logit_scale"):
                call()


def test_a_lost_session_says_so_and_the_others_live_on(opened, monkeypatch):
    first, second = opened.session(), opened.session()
    first.complete(PROMPT, max_new_tokens=2)

    def fails():
        raise UserError("the card fell silent")

    with monkeypatch.context() as patched:
        patched.setattr(opened.machine, "read_state", fails)
        with pytest.raises(UserError, match="the card fell silent"):
            first.state()
        patched.setattr(opened, "verifier", None)
        assert len(second.complete(PROMPT, max_new_tokens=2, eos=None).ids) == 2
    with pytest.raises(UserError, match="lost: the card fell silent"):
        first.complete([], max_new_tokens=1)
    first.reset()
    assert first.complete(PROMPT, max_new_tokens=2, eos=None).ids


def test_the_package_exports_its_front_door():
    for name in symlight.__all__:
        assert getattr(symlight, name) is not None
    assert set(symlight.__all__) <= set(dir(symlight))
    with pytest.raises(AttributeError, match="nonsense"):
        symlight.nonsense  # noqa: B018


def test_opening_refuses_unknown_names():
    with pytest.raises(UserError, match="no model package"):
        symlight.open_model("nowhere/nothing")
    with pytest.raises(UserError, match="no device is called"):
        symlight.open_model("demo", "abacus")
