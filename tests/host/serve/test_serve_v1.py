"""A V1 package behind the server: the library's texts, and states that go on."""

import contextlib

import pytest

import symlight
from symlight.host.device.opening import DeviceOptions
from symlight.host.serve.service import Service
from symlight.host.serve.settings import ServerSettings
from symlight.model.v1.package import V1Meta, load_v1, save_v1
from tests.benches.host.v1_pieces import pieces
from tests.benches.model.v1_worlds import model

from .conftest import Running

pytestmark = pytest.mark.timeout(240)  # the first test compiles


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    path = tmp_path_factory.mktemp("v1") / "tiny"
    shape, tensors, _ = model(21, vocab=40)
    meta = V1Meta(name="tiny", synthetic=True, pad=0, bos=1, eos=2, unk=3)
    save_v1(path, shape, meta, tensors.items(), pieces(32))
    return load_v1(path)


@pytest.fixture(scope="module")
def server(package):
    service = Service(package, DeviceOptions(device="cpu"), ServerSettings(port=0, grace=5.0))
    with contextlib.ExitStack() as stack:
        running = Running(service)
        stack.callback(running.stop)
        yield running


def test_texts_are_the_librarys(server, package):
    with symlight.open_model(package, "cpu") as opened:
        for prompt in ("the word", "the word was with", "in the beginning"):
            done = opened.complete(prompt, max_new_tokens=9)
            answer = server.post("/v1/completions", prompt=prompt, max_tokens=9, temperature=0).json()
            assert answer["choices"][0]["text"] == done.text
            assert answer["usage"]["prompt_tokens"] == len(package.encode(prompt))


def test_log_probabilities(server, package):
    answer = server.post(
        "/v1/completions", prompt="the word was", max_tokens=2, temperature=0, echo=True, logprobs=2
    ).json()
    found = answer["choices"][0]["logprobs"]["token_logprobs"]
    with symlight.open_model(package, "cpu") as opened:
        expected = [token.logprob for token in opened.score("the word was")]
    assert found[: len(expected)][1:] == pytest.approx(expected[1:], abs=1e-6)
    assert found[0] is None and all(value <= 0 for value in found[1:])


def test_metrics(server):
    assert "symlight" in server.client.get("/metrics").text
