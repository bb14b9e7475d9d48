"""host.serve: answers over HTTP are the library's texts; what is wrong is refused by name."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import symlight
from symlight.base.errors import UserError
from symlight.host.device.packages import open_package
from symlight.model.penalties import Penalties
from symlight.model.sampling import SamplingOptions

from .conftest import served

pytestmark = pytest.mark.timeout(120)
PROMPT = "In the beginning"


@pytest.fixture(scope="module")
def model():
    with symlight.open_model("demo", device="reference") as opened:
        yield opened


def events(response) -> list:
    """Data of server-sent events; the last is [DONE]."""
    assert response.headers["content-type"].startswith("text/event-stream")
    parts = [part.removeprefix("data: ") for part in response.text.split("\n\n") if part]
    assert parts[-1] == "[DONE]"
    return [json.loads(part) for part in parts[:-1]]


def test_a_greedy_text_is_the_references(server, model):
    answer = server.post("/v1/completions", prompt=PROMPT, max_tokens=24, temperature=0).json()
    done = model.complete(PROMPT, max_new_tokens=24)
    (choice,) = answer["choices"]
    assert choice["text"] == done.text and choice["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": len(done.prompt), "completion_tokens": 24,
                               "total_tokens": len(done.prompt) + 24}  # fmt: skip


@pytest.mark.parametrize("values", [{"temperature": 0.8}, {"top_p": 0.7, "top_k": 9}, {"min_p": 0.1}])
def test_a_seed_gives_the_references_text(server, model, values):
    answer = server.post("/v1/completions", prompt=PROMPT, max_tokens=24, seed=5, **values).json()
    sampling = SamplingOptions(**{"temperature": 1.0, "seed": 5} | values)
    assert answer["choices"][0]["text"] == model.complete(PROMPT, max_new_tokens=24, sampling=sampling).text
    assert answer["seed"] == 5


def test_choices_have_the_seeds_that_follow(server, model):
    answer = server.post("/v1/completions", prompt=[PROMPT, "The king"], n=2, max_tokens=9, seed=3).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    for choice, (prompt, seed) in zip(
        answer["choices"], [(PROMPT, 3), (PROMPT, 4), ("The king", 3), ("The king", 4)], strict=True
    ):
        sampling = SamplingOptions(temperature=1.0, seed=seed)
        assert choice["text"] == model.complete(prompt, max_new_tokens=9, sampling=sampling).text


def test_without_a_seed_texts_differ_and_can_be_repeated(server):
    ask = {"prompt": PROMPT, "max_tokens": 16}
    first, second = (server.post("/v1/completions", **ask).json() for _ in range(2))
    assert first["seed"] != second["seed"] and first["choices"][0]["text"] != second["choices"][0]["text"]
    again = server.post("/v1/completions", **ask, seed=first["seed"] % (1 << 63)).json()
    if first["seed"] < 1 << 63:
        assert again["choices"][0]["text"] == first["choices"][0]["text"]


def test_penalties_and_bias(server, model):
    body = {"frequency_penalty": 0.7, "presence_penalty": 0.2, "logit_bias": {"5": 2.5, "9": -100}}
    answer = server.post("/v1/completions", prompt=PROMPT, max_tokens=20, temperature=0, **body).json()
    changes = Penalties(frequency=0.7, presence=0.2, bias={5: 2.5, 9: -100})
    assert answer["choices"][0]["text"] == model.complete(PROMPT, max_new_tokens=20, penalties=changes).text


def test_log_probabilities_are_the_librarys(server, model):
    answer = server.post("/v1/completions", prompt=PROMPT, max_tokens=8, temperature=0, logprobs=3).json()
    scores = answer["choices"][0]["logprobs"]
    done = model.complete(PROMPT, max_new_tokens=8, logprobs=3)
    assert scores["token_logprobs"] == [token.logprob for token in done.tokens]
    assert scores["tokens"] == [token.text for token in done.tokens]
    tops = [[other.logprob for other in token.alternatives] for token in done.tokens]
    assert [list(top.values()) for top in scores["top_logprobs"]] == tops
    text = answer["choices"][0]["text"]
    for offset, token in zip(scores["text_offset"], scores["tokens"], strict=True):
        assert text[offset:].startswith(token)


@pytest.mark.parametrize("new", [0, 1])
def test_echo_scores_the_prompt(server, model, new):
    text = "And the king of Israel said unto them, Go ye."
    body = {"prompt": text, "max_tokens": new, "temperature": 0, "logprobs": 1, "echo": True}
    choice = server.post("/v1/completions", **body).json()["choices"][0]
    expected = model.score(text, 1)
    assert choice["text"].startswith(text)
    assert choice["logprobs"]["token_logprobs"][: len(expected)] == [token.logprob for token in expected]
    assert len(choice["logprobs"]["tokens"]) == len(expected) + new
    tokens = model.encode(text)
    by_ids = server.post("/v1/completions", **body | {"prompt": tokens}).json()["choices"][0]
    assert by_ids["logprobs"] == choice["logprobs"]


def test_stream_is_the_whole_text(server):
    body = {"prompt": PROMPT, "max_tokens": 40, "seed": 8, "n": 2, "stop": ["the l", "zz"]}
    whole = server.post("/v1/completions", **body).json()
    streamed = events(
        server.post("/v1/completions", **body, stream=True, stream_options={"include_usage": True})
    )
    for index in range(2):
        pieces = [c for one in streamed for c in one["choices"] if c["index"] == index]
        assert "".join(piece["text"] for piece in pieces) == whole["choices"][index]["text"]
        assert pieces[-1]["finish_reason"] == whole["choices"][index]["finish_reason"]
    assert streamed[-1]["usage"] == whole["usage"] and streamed[-1]["choices"] == []


def test_stop_texts_are_never_shown(server, model):
    text = model.complete(PROMPT, max_new_tokens=40).text
    stop = text[25:31]
    body = {"prompt": PROMPT, "max_tokens": 40, "temperature": 0, "stop": stop}
    choice = server.post("/v1/completions", **body).json()["choices"][0]
    assert choice["text"] == text[: text.index(stop)] and choice["finish_reason"] == "stop"
    streamed = events(server.post("/v1/completions", **body, stream=True))
    shown = ""
    for one in streamed:
        shown += one["choices"][0]["text"]
        assert stop not in shown
    assert shown == choice["text"]


def test_chat_goes_on_from_what_was_ingested(server, model):
    messages = [{"role": "user", "content": PROMPT}]
    body = {"max_tokens": 12, "temperature": 0}
    first = server.post("/v1/chat/completions", messages=messages, **body).json()
    said = first["choices"][0]["message"]
    assert said["role"] == "assistant"
    assert said["content"] == model.complete(PROMPT + "\n", max_new_tokens=12).text
    messages += [said, {"role": "user", "content": "And then?"}]
    second = server.post("/v1/chat/completions", messages=messages, **body).json()
    everything = f"{PROMPT}\n{said['content']}\nAnd then?\n"
    assert second["choices"][0]["message"]["content"] == model.complete(everything, max_new_tokens=12).text
    parts = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
    again = server.post("/v1/chat/completions", messages=parts, **body).json()
    assert again["choices"][0]["message"]["content"] == said["content"]


def test_a_packages_chat_template_is_used(model):
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}, so:"
    with served("cpu:1", package=with_template(template)) as server:
        body = {"max_tokens": 12, "temperature": 0}
        messages = [{"role": "system", "content": "Speak."}, {"role": "user", "content": PROMPT}]
        said = server.post("/v1/chat/completions", messages=messages, **body).json()["choices"][0]["message"]
        expected = model.complete(f"<system>Speak.<user>{PROMPT}, so:", max_new_tokens=12).text
        assert said["content"] == expected
        assert server.client.get("/tokenizer_info").json()["chat_template"] == template
    with served("cpu:1", package=with_template("{{ raise_exception('no system') }}")) as server:
        answer = server.post("/v1/chat/completions", messages=messages)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "messages"
        assert "no system" in answer.json()["error"]["message"]
        assert server.post("/v1/completions", prompt=PROMPT, max_tokens=2).status_code == 200
    with pytest.raises(UserError, match="not a Jinja template"), served("cpu:1", package=with_template("{%")):
        pass


def with_template(template: str):
    package = open_package("demo")
    return replace(package, meta=replace(package.meta, chat_template=template))


def test_a_long_prompt_equals_a_short_start_and_its_rest(server, model):
    """The cache of states changes no text."""
    ids = model.encode("And it came to pass in those days that there went out a decree " * 6)
    for length in (70, 130, len(ids)):
        body = {"prompt": ids[:length], "max_tokens": 6, "temperature": 0}
        text = server.post("/v1/completions", **body).json()["choices"][0]["text"]
        assert text == model.complete(ids[:length], max_new_tokens=6).text
    reused = server.client.get("/v1/status").json()["metrics"]["symlight_reused_prompt_tokens_total"]
    assert reused >= 70


def test_small_paths(server):
    client = server.client
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"ready": True}
    (model,) = client.get("/v1/models").json()["data"]
    assert model["id"] == "demo"
    tokens = server.post("/tokenize", prompt=PROMPT).json()
    assert server.post("/detokenize", tokens=tokens["tokens"]).json() == {"prompt": PROMPT}
    assert tokens["count"] == len(tokens["tokens"])
    assert "<title>symlight</title>" in client.get("/").text
    assert client.get("/tokenizer_info").json()["vocab_size"] == 1024


def test_metrics_are_valid(server):
    server.post("/v1/completions", prompt=PROMPT, max_tokens=4)
    found = {
        family.name: family for family in text_string_to_metric_families(server.client.get("/metrics").text)
    }
    for name in ("requests", "generated_tokens", "queue_length", "time_to_first_token_seconds",
                 "time_between_tokens_seconds", "density", "weight_bytes", "device_restarts",
                 "state_swaps"):  # fmt: skip
        assert f"symlight_{name}" in found, name
    densities = {sample.labels["site"]: sample.value for sample in found["symlight_density"].samples}
    assert set(densities) == {"qkv", "decay", "up", "down"} and all(0 < one < 1 for one in densities.values())


def test_the_dashboard_shows_metrics_that_exist(server):
    board = next(
        folder / "examples" / "grafana_dashboard.json"
        for folder in Path(__file__).resolve().parents
        if (folder / "examples").is_dir()
    )
    shown = set(re.findall(r"symlight_\w+", board.read_text()))
    text = server.client.get("/metrics").text
    assert len(shown) > 12 and [name for name in sorted(shown) if name not in text] == []


REFUSED = {
    "max_tokens": [-1, 10**9, 1.5, "7", True],
    "temperature": [-0.1, 1e9, "hot", [1]],
    "top_p": [0, 1.5, "x"],
    "top_k": [-2, 65, 1.5],
    "min_p": [-1, 2],
    "n": [0, 17, "2"],
    "seed": [1.5, "x"],
    "logprobs": [-1, 65, True],
    "stop": ["", ["x"] * 17, "y" * 257, 5],
    "stream": ["yes", 1],
    "echo": ["yes"],
    "best_of": [3],
    "suffix": ["x"],
    "frequency_penalty": [1e9, "x"],
    "presence_penalty": [-1e9],
    "repetition_penalty": [0],
    "logit_bias": [{"x": 1}, {"99999": 1}, {"5": "much"}, [5], {"5": 1e9}],
    "stream_options": [{"include_usage": True}, {"x": 1}],
    "user": [5],
    "tools": [[{"type": "function"}]],
    "response_format": [{"type": "json_object"}],
    "guided_json": [{}],
}


@pytest.mark.parametrize("field", REFUSED)
def test_a_bad_value_is_refused_by_name(server, field):
    for value in REFUSED[field]:
        answer = server.post("/v1/completions", prompt=PROMPT, **{field: value})
        error = answer.json()["error"]
        assert answer.status_code == 400, (field, value, answer.text)
        assert error["param"] == field and error["message"], error
        assert error["type"] == "invalid_request_error"


BAD_PROMPTS = [None, 5, "", [], [[]], [1.5], [-1], [1024], ["a", 5], [[1], "a"], {"a": 1}, [""], [True]]


@pytest.mark.parametrize("prompt", BAD_PROMPTS, ids=repr)
def test_a_bad_prompt_is_refused(server, prompt):
    answer = server.post("/v1/completions", prompt=prompt)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "prompt", answer.text


def test_neutral_values_are_taken(server):
    body = {"best_of": 1, "suffix": None, "tools": [], "user": "me", "response_format": {"type": "text"}}
    assert server.post("/v1/completions", prompt=PROMPT, max_tokens=1, **body).status_code == 200


def test_another_model_does_not_exist(server):
    answer = server.post("/v1/completions", prompt=PROMPT, model="gpt-4")
    assert answer.status_code == 404 and answer.json()["error"]["code"] == "model_not_found"


def test_unknown_paths_and_methods(server):
    assert server.client.get("/v1/nothing").status_code == 404
    assert server.client.get("/v1/completions").status_code == 405
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../../x", "//etc/passwd"):
        answer = server.client.get(path)
        assert answer.status_code == 404 and "error" in answer.json()


RAW = {
    "empty": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a number": b"7",
    "invalid UTF-8": b'{"prompt": "\xff"}',
    "a lone surrogate": b'{"prompt": "\\ud800"}',
    "NaN": b'{"prompt": "a", "temperature": NaN}',
    "deep": b"[" * 100_000,
    "infinity": b'{"prompt": "a", "temperature": 1e999}',
    "a huge number": b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("what", RAW)
def test_a_bad_body_is_refused(server, what):
    answer = server.client.post("/v1/completions", content=RAW[what])
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]
    assert server.client.get("/health").status_code == 200


def test_a_huge_body_is_refused(serve):
    with serve("cpu:1", max_body=1000) as server:
        assert server.post("/v1/completions", prompt="x" * 2000).status_code == 413

        def endless():
            for _ in range(50):
                yield b"x" * 100

        assert server.client.post("/v1/completions", content=endless()).status_code == 413
