"""Devices with one session at a time: texts are the same, states are swapped when another session waits."""

import concurrent.futures

import numpy as np
import pytest

import symlight
from symlight.host.bench.telemetry import Reading
from symlight.host.serve.backend import Counts
from symlight.host.serve.metrics import Metrics
from symlight.model.config import preset
from symlight.model.penalties import Penalties
from symlight.model.sampling import SamplingOptions

pytestmark = pytest.mark.timeout(300)
CASES = {
    "greedy": {"temperature": 0},
    "seeded": {"temperature": 0.9, "seed": 11},
    "penalised": {"temperature": 0, "frequency_penalty": 0.5},
    "scored": {"temperature": 0, "logprobs": 2, "echo": True},
}


def expected(model, prompt: str, case: str) -> str:
    if case == "seeded":
        sampling = SamplingOptions(temperature=0.9, seed=11)
        return model.complete(prompt, max_new_tokens=12, sampling=sampling).text
    if case == "penalised":
        return model.complete(prompt, max_new_tokens=12, penalties=Penalties(frequency=0.5)).text
    return (prompt if case == "scored" else "") + model.complete(prompt, max_new_tokens=12).text


@pytest.fixture(scope="module")
def model():
    with symlight.open_model("demo", device="reference") as opened:
        yield opened


def run_together(server, jobs):
    """Answers to `jobs` (prompt, case) that were all sent at once."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        asked = [
            pool.submit(server.post, "/v1/completions", prompt=prompt, max_tokens=12, **CASES[case])
            for prompt, case in jobs
        ]
        return [one.result().json()["choices"][0] for one in asked]


JOBS = [
    (prompt, case) for case in CASES for prompt in ("In the beginning", "And the king said unto them " * 9)
]


def test_the_reference_takes_turns(serve, model):
    with serve("reference") as server:
        choices = run_together(server, JOBS)
        for (prompt, case), choice in zip(JOBS, choices, strict=True):
            assert choice["text"] == expected(model, prompt, case), (prompt, case)
        metrics = server.client.get("/v1/status").json()["metrics"]
        assert metrics["symlight_state_swaps_total"] > 0
        scores = [
            choice["logprobs"] for (_, case), choice in zip(JOBS, choices, strict=True) if case == "scored"
        ]
        done = model.complete(JOBS[-2][0], max_new_tokens=12, logprobs=0, prompt_logprobs=0)
        assert scores[0]["token_logprobs"] == [token.logprob for token in (*done.prompt, *done.tokens)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_simulated_card_takes_turns(serve, model):
    with serve("sim") as server:
        jobs = [(prompt, "greedy") for prompt in ("In the beginning", "The king", "And it came to pass")]
        for (prompt, case), choice in zip(jobs, run_together(server, jobs), strict=True):
            assert choice["text"] == expected(model, prompt, case)
        metrics = server.client.get("/v1/status").json()["metrics"]
        assert metrics["symlight_device_cycles_total"] > 10_000 and metrics["symlight_state_swaps_total"] > 0
        assert 0.05 < metrics["symlight_port_utilisation"] < 1
        answer = server.post("/v1/completions", prompt="The king", max_tokens=2, temperature=0, logprobs=1)
        assert answer.status_code in (200, 400)
        if answer.status_code == 400:
            assert "logits" in answer.json()["error"]["message"]


class Watts:
    """A sensor of the device, as the server sees it."""

    source = "a test"

    def __init__(self):
        self.readings = [None, 12.5]

    def read(self) -> Reading:
        return Reading(self.readings.pop(0), {}, "")


def test_ports_drafts_and_power_are_shown():
    metrics = Metrics(preset("tiny"))
    assert (
        b"symlight_port_utilisation" not in metrics.text() and b"symlight_power_watts" not in metrics.text()
    )
    metrics.watch_ports(32)
    metrics.watch_power(Watts())
    active = np.ones((preset("tiny").layers, 4), np.int64)
    metrics.step(Counts(passes=2, active=active, cycles=1000, bytes_read=8000, drafted=5, accepted=3), 1, 0.1)
    shown = metrics.summary()
    assert shown["symlight_port_utilisation"] == 8000 / 32_000
    assert shown["symlight_drafted_tokens_total"] == 5 and shown["symlight_accepted_drafts_total"] == 3
    assert np.isnan(shown["symlight_power_watts"]) and metrics.summary()["symlight_power_watts"] == 12.5
