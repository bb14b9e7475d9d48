"""One thread that owns the device: it admits jobs fairly, advances them, and survives faults."""

import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass

from symlight.base.errors import DeviceFault

from .backend import Backend, Counts, Handle, Outcome
from .job import Job
from .prefix_cache import PrefixCache

MOST_FAILURES = 3  # failed steps that one job may take part in
FAULT_PAUSE_SECONDS = 0.1
INTERNAL_ERROR = "an internal error; the server's log has it"
INTERNAL, GATEWAY_TIMEOUT, UNAVAILABLE = 500, 504, 503

_log = logging.getLogger("symlight.serve")


class QueueFull(Exception):
    """Too many jobs wait."""


class Draining(Exception):
    """The server is shutting down and takes no more jobs."""


class Observer:
    """What the scheduler tells of its work; the default tells nobody."""

    def step(self, counts: Counts, jobs: int, seconds: float) -> None: ...

    def finished(self, job: Job) -> None: ...

    def restarted(self) -> None: ...

    def reused(self, tokens: int) -> None: ...


@dataclass(eq=False)
class _Running:
    job: Job
    handle: Handle
    alone_until: int = -1  # tokens: until its text has more, it shares no step, because such a step failed

    @property
    def alone(self) -> bool:
        return self.job.length <= self.alone_until


class Scheduler:
    """Runs jobs on a backend.

    Parameters
    ----------
    backend : Backend
    cache : PrefixCache
    max_queue : int
        Jobs that may wait.
    max_running : int
        Jobs in progress at a time. On a machine with one session they take turns.
    observer : Observer
    """

    def __init__(
        self, backend: Backend, cache: PrefixCache, *, max_queue: int, max_running: int,
        observer: Observer | None = None,
    ):  # fmt: skip
        self._backend, self._cache, self._observer = backend, cache, observer or Observer()
        self._max_queue, self._max_running = max_queue, max_running
        self._condition = threading.Condition()
        self._queues: OrderedDict[str, deque[Job]] = OrderedDict()  # by client
        self._running: list[_Running] = []
        self._draining = self._stopped = False
        self._thread = threading.Thread(target=self._loop, name="scheduler", daemon=True)
        self._thread.start()

    # ---- from any thread ----

    def submit(self, *jobs: Job) -> None:
        """Queue the jobs of one request, all or none."""
        with self._condition:
            if self._draining:
                raise Draining
            if self.waiting + len(jobs) > self._max_queue + max(0, self._max_running - len(self._running)):
                raise QueueFull
            for job in jobs:
                self._queues.setdefault(job.client, deque()).append(job)
            self._condition.notify()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._draining

    def close(self, grace_seconds: float) -> None:
        """Take no more jobs, finish those that are there, end the rest after `grace_seconds`."""
        with self._condition:
            self._draining = True
            self._condition.notify()
        self._thread.join(grace_seconds)
        with self._condition:
            self._stopped = True
            self._condition.notify()
        self._thread.join()
        self._backend.close()

    # ---- the thread ----

    def _loop(self) -> None:
        try:
            self._work()
        except Exception:  # a defect that no request is to blame for; /ready says so from now on
            _log.exception("the scheduler has failed")
            self._draining = True
            self._end_all(INTERNAL_ERROR)

    def _work(self) -> None:
        while True:
            with self._condition:
                self._admit()
                if not self._running:
                    if self._draining or self._stopped:
                        return
                    self._condition.wait(0.5)
                    continue
            if self._stopped:
                self._end_all("the server is shutting down")
                return
            self._sweep()
            if self._running:
                self._step()

    def _admit(self) -> None:
        """Move waiting jobs to the running ones, the client with the fewest running jobs first."""
        now = time.monotonic()
        for queue in self._queues.values():
            for job in [job for job in queue if job.cancelled or (job.deadline or now) < now]:
                queue.remove(job)
                _expire(job)
        while len(self._running) < self._max_running:
            clients = [client for client, queue in self._queues.items() if queue]
            if not clients:
                break
            busy = Counter(one.job.client for one in self._running)
            client = min(clients, key=lambda name: busy[name])
            job = self._queues[client].popleft()
            self._queues.move_to_end(client)
            self._start(job)
        for client in [client for client, queue in self._queues.items() if not queue]:
            del self._queues[client]

    def _start(self, job: Job, alone_until: int = -1) -> None:
        job.times.started = job.times.started or time.monotonic()
        found = None if job.wish.scores_prompt else self._cache.longest(job.tokens)
        count, state = found or (0, None)
        job.handed = count
        if count:
            job.reused = count
            self._observer.reused(count)
        try:
            handle = self._backend.open(state)
        except Exception:  # out of memory, say
            _log.exception("a request could not be started")
            job.finish(None, INTERNAL_ERROR, INTERNAL)
            return
        self._running.append(_Running(job, handle, alone_until))

    def _sweep(self) -> None:
        now = time.monotonic()
        for one in list(self._running):
            if one.job.cancelled or (one.job.deadline or now) < now:
                self._end(one)
                _expire(one.job)

    def _step(self) -> None:
        turn = self._turn()
        others = [one for one in self._running if one not in turn]
        self._running = others + turn  # the next step begins with the others
        began = time.monotonic()
        try:
            outcomes, counts = self._backend.step([(one.job, one.handle) for one in turn])
        except DeviceFault as error:
            self._fault(turn, error)
            return
        except Exception as error:
            self._defect(turn, error)
            return
        self._observer.step(counts, len(turn), time.monotonic() - began)
        for one, outcome in zip(turn, outcomes, strict=True):
            try:
                self._take(one, outcome)
            except DeviceFault as error:  # its state could not be read
                self._fault(turn, error)
                return
            except Exception as error:
                self._defect([one], error)

    def _turn(self) -> list[_Running]:
        """Who takes part in the next step."""
        first = self._running[0]
        if first.alone:
            return [first]
        return [one for one in self._running if not one.alone][: self._backend.most]

    def _take(self, one: _Running, outcome: Outcome) -> None:
        job = one.job
        before, prompt = job.handed, len(job.wish.prompt)
        job.handed += outcome.handed
        if before < prompt <= job.handed:
            self._remember(one)
        if outcome.prompt_rows is not None:
            job.take_prompt_rows(outcome.prompt_rows)
        if job.handed < prompt + len(job.generated):
            return
        if not job.wants_head:
            job.take_end_of_prompt()
        elif outcome.tokens:
            job.take(outcome.tokens)
        else:
            job.take([job.choose(outcome.chosen, outcome.logits)], outcome.logits)
        if job.finished:
            self._remember(one)
            self._end(one)
            self._observer.finished(job)

    def _remember(self, one: _Running) -> None:
        """Keep the state for requests that begin with the same tokens."""
        count = self._backend.ingested(one.handle)
        if count <= one.job.length and self._cache.wants(tokens := one.job.tokens[:count]):
            self._cache.keep(tokens, self._backend.snapshot(one.handle))

    def _end(self, one: _Running) -> None:
        self._running.remove(one)
        self._backend.drop(one.handle)

    def _end_all(self, sentence: str) -> None:
        with self._condition:
            jobs = [one.job for one in self._running]
            jobs += [job for queue in self._queues.values() for job in queue]
            self._running, self._queues = [], OrderedDict()
        for job in jobs:
            job.finish(None, sentence, UNAVAILABLE)

    def _fault(self, turn: list[_Running], error: DeviceFault) -> None:
        """Restart the device; every running text is ingested again from its tokens."""
        _log.warning("the device failed (%s); it is restarted and the texts are ingested again", error)
        for one in turn:
            one.job.failures += 1
        running, self._running = self._running, []
        try:
            self._backend.restart()
        except Exception as again:
            _log.error("the device cannot be restarted: %s", again)
            self._running = running
            self._end_all("the device failed and cannot be restarted; try again later")
            time.sleep(FAULT_PAUSE_SECONDS)
            return
        self._observer.restarted()
        for one in running:
            if one.job.failures >= MOST_FAILURES:
                one.job.finish(None, "the device failed on this request again and again", UNAVAILABLE)
            if one.job.finished:
                self._observer.finished(one.job)
                continue
            one.job.restart()
            self._start(one.job, one.alone_until)

    def _defect(self, turn: list[_Running], error: Exception) -> None:
        """A fault of this program, not of the device: it costs the request that meets it, not the others.

        Which request of a shared step it was shows when each does the step alone, from its tokens.
        """
        if len(turn) > 1:
            _log.warning("a step of %d requests failed (%r); each does it alone", len(turn), error)
        for one in turn:
            if one in self._running:
                self._end(one)
            one.job.failures += 1
            if len(turn) > 1 and one.job.failures < MOST_FAILURES:
                one.job.restart()
                self._start(one.job, len(one.job.tokens))
                continue
            if len(turn) == 1:
                _log.error("a request failed", exc_info=error)
            one.job.finish(None, INTERNAL_ERROR, INTERNAL)
            self._observer.finished(one.job)


def _expire(job: Job) -> None:
    if job.cancelled:
        job.finish(None, "the client has gone", 499)
    else:
        job.finish(None, "the request took longer than the server's limit", GATEWAY_TIMEOUT)
