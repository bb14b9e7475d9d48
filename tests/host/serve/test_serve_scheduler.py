"""host.serve.scheduler on a backend that counts upwards: turns, faults, defects, limits, the end."""

import logging
import threading
import time

import numpy as np
import pytest

from symlight.base.errors import DeviceFault
from symlight.host.device.packages import open_package
from symlight.host.serve.backend import Counts, Handle, Outcome
from symlight.host.serve.job import Finish, Job, Piece, Wish
from symlight.host.serve.prefix_cache import PrefixCache
from symlight.host.serve.scheduler import Draining, Observer, QueueFull, Scheduler
from symlight.model.state import State

pytestmark = pytest.mark.timeout(60)


class Counting:
    """A backend whose next token is the sum of the text so far, modulo 1000.

    The device fails at the steps `fails`. A step with a text that begins with `poison` meets a defect, and
    where `lonely` a step of several texts does.
    """

    def __init__(self, most=4, fails=(), gate: threading.Event | None = None, poison=None, lonely=False):
        self.most, self.fails, self.steps, self.restarts = most, set(fails), 0, 0
        self.gate, self.closed, self.seen, self.snapshots = gate, False, [], 0
        self.poison, self.lonely = poison, lonely

    def open(self, state):
        handle = Handle(state)
        handle.text = [] if state is None else list(state.membrane[: state.position])
        return handle

    def ingested(self, handle):
        return len(handle.text)

    def snapshot(self, handle):
        self.snapshots += 1
        state = State.new(PACKAGE.shape)
        state.position = len(handle.text)
        state.membrane[: state.position] = handle.text
        return state

    def step(self, work):
        if self.gate is not None:
            self.gate.wait(10)
        self.steps += 1
        self.seen.append([job.number for job, _ in work])
        if self.steps in self.fails:
            for _, handle in work:
                handle.text.append(-1)  # half done
            raise DeviceFault("the device is on fire")
        if any(job.wish.prompt[0] == self.poison for job, _ in work) or (self.lonely and len(work) > 1):
            for _, handle in work:
                handle.text.append(-1)
            raise KeyError("a slip of ours")
        outcomes = []
        for job, handle in work:
            part = list(job.due)[:3]
            handle.text += part
            done = len(part) == len(job.due) and job.wants_head
            outcomes.append(Outcome(len(part), chosen=sum(handle.text) % 1000 if done else None))
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

    def make(backend, cache: int = 1 << 20, **values) -> Scheduler:
        made.append(Scheduler(backend, PrefixCache(cache), **{"max_queue": 8, "max_running": 4} | values))
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


@pytest.mark.parametrize("most", [1, 4])
def test_a_defect_costs_its_own_request_and_no_restart(scheduler, caplog, most):
    backend = Counting(most, poison=99)
    run, clients, poisoned = scheduler(backend), [Client() for _ in range(3)], Client()
    with caplog.at_level(logging.WARNING, "symlight.serve"):
        jobs = [client.job(prompt=(5, index), count=9) for index, client in enumerate(clients)]
        run.submit(*jobs[:2], poisoned.job(prompt=(99, 1)), jobs[2])
        finish = poisoned.wait()
        for index, client in enumerate(clients):
            assert client.wait() == Finish("length") and client.made.generated == expected((5, index), 9)
    assert finish.status == 500 and "slip" not in finish.error
    assert backend.restarts == 0
    traces = [record for record in caplog.records if record.exc_info]
    assert len(traces) == 1 and "a slip of ours" in str(traces[0].exc_info[1])


def test_a_defect_of_shared_steps_ends(scheduler):
    """A step of several requests always fails, a step of one never; the requests end all the same."""
    run, clients = scheduler(Counting(lonely=True)), [Client() for _ in range(3)]
    run.submit(*(client.job(prompt=(5, index), count=40) for index, client in enumerate(clients)))
    for index, client in enumerate(clients):
        finish = client.wait()
        assert finish.status in (200, 500)
        assert client.made.generated == expected((5, index), 40)[: len(client.made.generated)]
    alone = Client()
    run.submit(alone.job())
    assert alone.wait() == Finish("length")


def test_a_device_that_fails_at_a_snapshot_loses_no_request(scheduler):
    """First at the one after the prompt, then, ingested again, at the one after the end."""
    backend, fails = Counting(), [True, False, True]
    snapshot = backend.snapshot

    def failing(handle):
        if fails and fails.pop(0):
            raise DeviceFault("the state cannot be read")
        return snapshot(handle)

    backend.snapshot = failing
    run = scheduler(backend)
    for _ in range(2):  # the second one begins when the first one's end is past
        client = Client()
        run.submit(client.job())
        assert client.wait() == Finish("length") and client.made.generated == expected()
    assert not fails and backend.restarts == 2


def test_a_session_that_cannot_be_opened_costs_its_request(scheduler):
    backend = Counting()
    opened, backend.open = backend.open, None  # calling it fails
    run, client = scheduler(backend), Client()
    run.submit(client.job())
    assert client.wait().status == 500
    backend.open = opened
    again = Client()
    run.submit(again.job())
    assert again.wait() == Finish("length") and run.alive


class FailingObserver(Observer):
    def step(self, counts, jobs, seconds):
        raise KeyError("a slip outside of any request")


def test_a_scheduler_that_fails_answers_and_says_so(scheduler):
    running, waiting = Client(), Client()
    run = scheduler(Counting(), max_running=1, observer=FailingObserver())
    run.submit(running.job(), waiting.job())
    assert running.wait().status == waiting.wait().status == 503
    until = time.monotonic() + 20
    while run.alive:
        assert time.monotonic() < until
        time.sleep(0.005)
    with pytest.raises(Draining):
        run.submit(Client().job())


@pytest.mark.parametrize("limit", [0, State.new(PACKAGE.shape).nbytes - 1])
def test_no_state_is_copied_where_none_is_kept(scheduler, limit):
    backend, clients = Counting(), [Client() for _ in range(3)]
    run = scheduler(backend, limit)
    for client in clients:
        run.submit(client.job())
        assert client.wait() == Finish("length")
    assert backend.snapshots == (1 if limit else 0)  # its size is known after the first


def test_a_kept_text_is_not_copied_again(scheduler):
    backend = Counting()
    run = scheduler(backend)
    for _ in range(3):
        client = Client()
        run.submit(client.job())
        assert client.wait() == Finish("length") and client.made.generated == expected()
    assert backend.snapshots == 2  # after the prompt, and at the end


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
