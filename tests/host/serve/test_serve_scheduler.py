"""host.serve.scheduler on a backend that counts upwards: turns, faults, limits, the end."""

import threading
import time

import numpy as np
import pytest

from symlight.host.device.packages import open_package
from symlight.host.serve.backends import Counts, Handle, Outcome
from symlight.host.serve.job import Finish, Job, Piece, Wish
from symlight.host.serve.prefix_cache import PrefixCache
from symlight.host.serve.scheduler import Draining, QueueFull, Scheduler
from symlight.model.state import State

pytestmark = pytest.mark.timeout(60)


class Counting:
    """A backend whose next token is the sum of the text so far, modulo 1000; it fails where told to."""

    def __init__(self, most: int = 4, fails=(), gate: threading.Event | None = None):
        self.most, self.fails, self.steps, self.restarts = most, set(fails), 0, 0
        self.gate, self.closed, self.seen = gate, False, []

    def open(self, state):
        handle = Handle(state)
        handle.text = [] if state is None else list(state.membrane[: state.position])
        return handle

    def snapshot(self, handle, handed):
        state = State.new(PACKAGE.shape)
        state.position = len(handle.text)
        state.membrane[: state.position] = handle.text
        return state, handed

    def step(self, work):
        if self.gate is not None:
            self.gate.wait(10)
        self.steps += 1
        self.seen.append([job.number for job, _ in work])
        if self.steps in self.fails:
            for _, handle in work:
                handle.text.append(-1)  # half done
            raise RuntimeError("the device is on fire")
        outcomes = []
        for job, handle in work:
            part = list(job.due)[:3]
            handle.text += part
            done = len(part) == len(job.due) and job.wants_head
            outcomes.append(Outcome(len(part), greedy=sum(handle.text) % 1000 if done else None))
        return outcomes, Counts(active=np.zeros((1, 4)))

    def drop(self, handle):
        pass

    def restart(self):
        self.restarts += 1

    def close(self):
        self.closed = True


PACKAGE = open_package("demo")


class Client:
    """Makes jobs and waits for them."""

    def __init__(self, name: str = "a"):
        self.name, self.done, self.pieces = name, threading.Event(), []
        self.finish: Finish | None = None

    def job(self, prompt=(1, 2, 3, 4), count=5, **values) -> Job:
        self.made = Job(
            Wish(prompt=tuple(prompt), max_tokens=count), PACKAGE, self.emit, client=self.name, **values
        )
        return self.made

    def emit(self, job, what):
        if isinstance(what, Piece):
            self.pieces.append(what)
        else:
            self.finish, self.ended = what, time.monotonic()
            self.done.set()

    def wait(self) -> Finish:
        assert self.done.wait(20), "the job does not end"
        return self.finish


def expected(prompt=(1, 2, 3, 4), count=5) -> list[int]:
    text = list(prompt)
    for _ in range(count):
        text.append(sum(text) % 1000)
    return text[len(prompt) :]


@pytest.fixture
def scheduler():
    made = []

    def make(backend, **values) -> Scheduler:
        made.append(Scheduler(backend, PrefixCache(1 << 20), **{"max_queue": 8, "max_running": 4} | values))
        return made[-1]

    yield make
    for one in made:
        one.close(2)


@pytest.mark.parametrize("most", [1, 4])
def test_jobs_advance_and_end(scheduler, most):
    backend = Counting(most)
    clients = [Client() for _ in range(6)]
    run = scheduler(backend)
    run.submit(*(client.job(prompt=(5, index)) for index, client in enumerate(clients)))
    for index, client in enumerate(clients):
        assert client.wait() == Finish("length")
        assert client.made.generated == expected((5, index))


def test_a_fault_loses_no_request(scheduler):
    backend = Counting(fails=(2, 4, 9))
    clients = [Client() for _ in range(4)]
    run = scheduler(backend)
    run.submit(*(client.job(prompt=(1, 2, 3, 4, index), count=9) for index, client in enumerate(clients)))
    for index, client in enumerate(clients):
        finish = client.wait()
        assert finish == Finish("length") or finish.status == 503
        if finish.status == 200:
            assert client.made.generated == expected((1, 2, 3, 4, index), 9)
    assert backend.restarts == 3


def test_a_request_that_kills_the_device_is_given_up(scheduler):
    backend = Counting(fails=range(1, 4))
    run, client = scheduler(backend), Client()
    run.submit(client.job())
    assert client.wait().status == 503
    again = Client()
    run.submit(again.job())
    assert again.wait() == Finish("length") and again.made.generated == expected()


def test_a_full_queue_takes_no_more_and_then_does(scheduler):
    gate = threading.Event()
    run = scheduler(Counting(gate=gate), max_queue=2, max_running=1)
    clients = [Client() for _ in range(3)]
    run.submit(clients[0].job())
    until = time.monotonic() + 10
    while not run.running and time.monotonic() < until:
        time.sleep(0.005)
    run.submit(clients[1].job(), clients[2].job())
    with pytest.raises(QueueFull):
        run.submit(Client().job())
    gate.set()
    assert all(client.wait().reason == "length" for client in clients)
    late = Client()
    run.submit(late.job())
    assert late.wait().reason == "length"


def test_clients_take_turns(scheduler):
    gate = threading.Event()
    run = scheduler(Counting(most=1, gate=gate), max_queue=20, max_running=2)
    greedy = [Client("greedy") for _ in range(8)]
    run.submit(*(client.job() for client in greedy))
    modest = Client("modest")
    run.submit(modest.job())
    gate.set()
    for client in (modest, *greedy):
        client.wait()
    ends = sorted(greedy + [modest], key=lambda client: client.ended)
    assert ends.index(modest) <= 3


def test_a_client_that_goes_away_frees_the_device(scheduler):
    backend = Counting()
    run, client = scheduler(backend), Client()
    job = client.job(count=1_000_000)
    run.submit(job)
    while not job.generated:
        time.sleep(0.001)
    job.cancel()
    assert client.wait().status == 499
    steps = backend.steps
    time.sleep(0.05)
    assert backend.steps == steps


def test_a_request_that_takes_too_long_ends(scheduler):
    run, running, waiting = scheduler(Counting(), max_running=1), Client(), Client()
    now = time.monotonic()
    run.submit(running.job(count=10**9, deadline=now + 0.1), waiting.job(count=10**9, deadline=now + 0.2))
    assert running.wait().status == 504 and waiting.wait().status == 504


def test_the_end_finishes_what_runs(scheduler):
    backend, client = Counting(), Client()
    run = scheduler(backend)
    run.submit(client.job(count=100))
    run.close(10)
    assert client.wait() == Finish("length") and backend.closed
    with pytest.raises(Draining):
        run.submit(Client().job())


def test_the_end_does_not_wait_for_ever(scheduler):
    client = Client()
    run = scheduler(Counting())
    run.submit(client.job(count=10**9))
    run.close(0.2)
    assert client.wait().status == 503


def test_what_was_ingested_is_not_ingested_again(scheduler):
    backend = Counting()
    run, first, second = scheduler(backend), Client(), Client()
    run.submit(first.job(prompt=range(1, 31)))
    first.wait()
    run.submit(second.job(prompt=[*range(1, 31), *first.made.generated, 7]))
    second.wait()
    assert second.made.reused == 30 + len(first.made.generated) - 1
    assert second.made.generated == expected([*range(1, 31), *first.made.generated, 7])
