"""host.serve.cpu_backend: how many tokens a step brings to whom, and which, with the demo model."""

from dataclasses import dataclass

import pytest

import symlight
from symlight.cpu.engine import CHUNK, Engine
from symlight.cpu.slices import MOST
from symlight.cpu.weights import Weights
from symlight.host.device.packages import open_package
from symlight.host.serve import cpu_backend
from symlight.host.serve.backend import Handle
from symlight.host.serve.cpu_backend import CpuBackend
from symlight.host.serve.job import Job, Wish
from symlight.model.sampling import GREEDY, SamplingOptions

pytestmark = pytest.mark.timeout(60)
PACKAGE = open_package("demo")
PROMPT = tuple(PACKAGE.encode("And the king said unto them"))
DRAWN = SamplingOptions(temperature=0.8, seed=5)


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(cpu_backend, "SLICE_SECONDS", 60.0)  # tokens end a slice, not time
    made = CpuBackend(Engine(Weights.pack(PACKAGE.model), 1), lambda: pytest.fail("no fault was made"))
    yield made
    made.close()


@dataclass
class Running:
    job: Job
    handle: Handle


def begin(backend, prompt=PROMPT, count=40, sampling=DRAWN, **wish) -> Running:
    job = Job(Wish(prompt=prompt, max_tokens=count, sampling=sampling, **wish), PACKAGE, lambda *_: None)
    return Running(job, backend.open(None))


def step(backend, *running: Running) -> list[int]:
    """Tokens that each has got, as the scheduler takes them."""
    outcomes, _ = backend.step([(one.job, one.handle) for one in running])
    before = [len(one.job.generated) for one in running]
    for one, outcome in zip(running, outcomes, strict=True):
        one.job.handed += outcome.handed
        if outcome.tokens:
            one.job.take(outcome.tokens)
        elif one.job.handed == one.job.length and one.job.wants_head:
            one.job.take([one.job.choose(outcome.chosen, outcome.logits)], outcome.logits)
    return [len(one.job.generated) - count for one, count in zip(running, before, strict=True)]


def text_of(prompt, count: int, sampling) -> list[int]:
    with symlight.open_model("demo", device="reference") as model:
        return model.complete(list(prompt), max_new_tokens=count, sampling=sampling).ids


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_a_prompt_brings_one_token_then_come_many(backend, sampling):
    one = begin(backend, sampling=sampling)
    assert step(backend, one) == [1]
    assert backend.ingested(one.handle) == len(PROMPT)  # so its state can be kept
    assert step(backend, one) == [MOST]
    assert step(backend, one) == [40 - 1 - MOST] and one.job.finished
    assert one.job.generated == text_of(PROMPT, 40, sampling)


def test_a_long_prompt_makes_nobody_wait(backend):
    writing, reading = begin(backend), begin(backend, PROMPT * (3 * CHUNK // len(PROMPT)))
    step(backend, writing)
    steps = 0
    while reading.job.handed < len(reading.job.wish.prompt):
        got = step(backend, writing, reading)
        assert got[0] == 1 or reading.job.generated
        steps += 1
    assert steps >= 3 and step(backend, writing, reading)[0] > 1
    assert writing.job.generated == text_of(PROMPT, len(writing.job.generated), DRAWN)


def test_who_needs_the_host_gets_a_token_at_a_time(backend):
    plain, scored, stopped = begin(backend), begin(backend, logprobs=2), begin(backend, stop=("nowhere",))
    for others in ((scored,), (stopped,), (scored, stopped)):
        for _ in range(3):
            assert set(step(backend, plain, *others)) == {1}
    assert step(backend, plain)[0] > 1
    for one in (plain, scored, stopped):
        assert one.job.generated == text_of(PROMPT, len(one.job.generated), DRAWN)


def test_a_lost_text_is_ingested_again(backend):
    one = begin(backend)
    step(backend, one)
    step(backend, one)
    known = list(one.job.generated)
    one.job.restart()
    one.handle = backend.open(None)
    while len(one.job.generated) == len(known):
        step(backend, one)
    assert one.job.generated == text_of(PROMPT, len(one.job.generated), DRAWN)
