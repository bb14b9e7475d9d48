"""The `openai` package against the server: what its users write works, and errors are its own classes."""

import pytest

openai = pytest.importorskip("openai", reason="the openai package (extra `test-serve`) is not installed")

import symlight  # noqa: E402
from symlight.model.sampling import SamplingOptions  # noqa: E402

pytestmark = pytest.mark.timeout(120)
PROMPT = "In the beginning"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def text():
    with symlight.open_model("demo", device="reference") as model:
        sampling = SamplingOptions(temperature=1.0, seed=4)
        return model.complete(PROMPT, max_new_tokens=20, sampling=sampling).text


def test_completions(client, text):
    answer = client.completions.create(model="demo", prompt=PROMPT, max_tokens=20, seed=4)
    assert answer.choices[0].text == text and answer.usage.completion_tokens == 20
    assert answer.choices[0].finish_reason == "length"


def test_streamed_completions(client, text):
    chunks = client.completions.create(model="demo", prompt=PROMPT, max_tokens=20, seed=4, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == text


def test_chat(client):
    messages = [{"role": "system", "content": "Speak."}, {"role": "user", "content": PROMPT}]
    ask = {"model": "demo", "messages": messages, "max_completion_tokens": 15, "seed": 4}
    whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
    choice = whole.choices[0]
    assert choice.message.role == "assistant" and len(choice.logprobs.content) == 15
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 2 and token.logprob <= token.top_logprobs[0].logprob
        assert bytes(token.bytes).decode() == token.token
    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == choice.message.content and chunks[-1].usage == whole.usage
    # A client sends the answer back as it is.
    messages += [choice.message, {"role": "user", "content": "More."}]
    assert client.chat.completions.create(model="demo", messages=messages, max_tokens=3).choices


def test_log_probabilities(client):
    answer = client.completions.create(
        model="demo", prompt=PROMPT, max_tokens=1, temperature=0, logprobs=1, echo=True
    )
    scores = answer.choices[0].logprobs
    assert scores.token_logprobs[0] is None and all(one <= 0 for one in scores.token_logprobs[1:])


def test_models(client):
    assert [model.id for model in client.models.list()] == ["demo"]


def test_errors_are_the_clients_own(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="demo", prompt=PROMPT, max_tokens=-4)
    assert caught.value.param == "max_tokens"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="other", prompt=PROMPT)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "a"}],
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        )  # fmt: skip
    assert caught.value.param == "tools"


def test_keys(serve):
    keys = ("abcdefghijklmnop", "ponmlkjihgfedcba")
    with serve("cpu:1", keys=keys) as server:
        for key in keys:
            opened = openai.OpenAI(base_url=f"{server.address}/v1", api_key=key, max_retries=0)
            assert opened.completions.create(model="demo", prompt=PROMPT, max_tokens=2).choices
        wrong = openai.OpenAI(base_url=f"{server.address}/v1", api_key="abcdefghijklmnoq", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            wrong.completions.create(model="demo", prompt=PROMPT, max_tokens=2)
        assert server.client.get("/metrics").status_code == 401
        assert server.client.get("/health").status_code == 200


def test_a_full_queue_says_when_to_come_back(serve):
    with serve("cpu:1", max_queue=0, max_running=1) as server:
        client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)
        stream = client.completions.create(
            model="demo", prompt=PROMPT, max_tokens=20_000, temperature=0, stream=True
        )
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as caught:
            client.completions.create(model="demo", prompt=PROMPT, max_tokens=2)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        stream.close()
        patient = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=8)
        assert patient.completions.create(model="demo", prompt=PROMPT, max_tokens=2).choices


def test_a_slow_answer_is_ended(serve):
    with serve("cpu:1", request_timeout=1.0) as server:
        # Greedy, because a sampled text may end by itself within the time.
        answer = server.post("/v1/completions", prompt=PROMPT, max_tokens=60_000, temperature=0)
        assert answer.status_code == 504 and "limit" in answer.json()["error"]["message"]
        assert server.post("/v1/completions", prompt=PROMPT, max_tokens=2).status_code == 200
