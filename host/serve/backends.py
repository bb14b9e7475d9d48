"""What runs the jobs: one pass of the CPU engine for many, or slices on a machine with one session."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.cpu.engine import CHUNK, Engine, Feed, Session, Want
from symlight.model.state import State

from ..device.choosing import Logits, RunOptions
from ..device.cpu_machine import CpuMachine
from ..device.machine import Machine
from .job import Job

SLICE_TOKENS = 8  # tokens generated in a slice on a machine, before another session may have it
SLICE_PROMPT = 64  # prompt tokens ingested in a slice


class Handle:
    """A session of a backend.

    Attributes
    ----------
    state : State | None
        While the session is not on the device; CPU sessions always have theirs.
    """

    def __init__(self, state: State | None, session: Session | None = None):
        self.state, self.session = state, session
        self.foreseen = False  # the machine's pending token is its own guess, not a token of the text


@dataclass
class Outcome:
    """What came of a job's share of a step.

    Parameters
    ----------
    handed : int
        Tokens of the text that the device has taken.
    prompt_rows : [n, V] int64 | None
        Logits after the tokens taken, where the prompt is scored.
    tokens : list of int
        Chosen by the device and already on it.
    greedy, logits : int | None, [V] int64 | None
        Where the host chooses: the largest logit, and all of them.
    """

    handed: int = 0
    prompt_rows: np.ndarray | None = None
    tokens: list[int] = field(default_factory=list)
    greedy: int | None = None
    logits: np.ndarray | None = None


@dataclass
class Counts:
    """What a step did: passes, head evaluations, nonzero inputs [L, 4], cycles if there are any, drafts."""

    passes: int = 0
    heads: int = 0
    active: np.ndarray | None = None
    cycles: int = 0
    bytes_read: int | None = None
    swaps: int = 0
    drafted: int = 0
    accepted: int = 0


class Backend(Protocol):
    """A device for the scheduler.

    Members
    -------
    most : int
        Jobs that a step can advance.
    """

    most: int

    def open(self, state: State | None) -> Handle: ...

    def ingested(self, handle: Handle) -> int:
        """Tokens in the state of a handle that was in the last step."""

    def snapshot(self, handle: Handle) -> State:
        """A copy of that state, without a pending token."""

    def step(self, work: Sequence[tuple[Job, Handle]]) -> tuple[list[Outcome], Counts]: ...

    def drop(self, handle: Handle) -> None: ...

    def restart(self) -> None:
        """After a fault; every handle is lost."""

    def close(self) -> None: ...


class CpuBackend:
    """Sessions that advance together: each by a token, or by a share of what is left of a pass."""

    def __init__(self, engine: Engine, reopen: Callable[[], Engine], most: int = CHUNK):
        self._engine, self._reopen, self.most = engine, reopen, most

    def open(self, state: State | None) -> Handle:
        session = Session.new(self._engine.shape) if state is None else Session(state)
        return Handle(session.state, session)

    def ingested(self, handle: Handle) -> int:
        return present(handle.session).state.position

    def snapshot(self, handle: Handle) -> State:
        return present(handle.session).state.copy()

    def step(self, work):
        feeds = [
            self._feed(job, handle, room) for (job, handle), room in zip(work, _rooms(work), strict=True)
        ]
        results = self._engine.run(feeds)
        active = np.concatenate([fed.active for fed in results])
        counts = Counts(
            len(active), sum(len(fed.tokens) for fed in results), active.sum(axis=0, dtype=np.int64)
        )
        outcomes = [
            _outcome(job, feed, fed) for (job, _), feed, fed in zip(work, feeds, results, strict=True)
        ]
        return outcomes, counts

    def _feed(self, job: Job, handle: Handle, room: int) -> Feed:
        due, session = job.due, present(handle.session)
        part = due[:room]
        if job.in_prompt and job.wish.scores_prompt:
            return Feed(session, part, Want.ALL, logits=True)
        last = len(part) == len(due) and job.wants_head
        return Feed(session, part, Want.LAST if last else Want.NOTHING, last and job.needs_logits)

    def drop(self, handle: Handle) -> None:
        """Nothing to give back."""

    def restart(self) -> None:
        self._engine.close()
        self._engine = self._reopen()

    def close(self) -> None:
        self._engine.close()


def _rooms(work) -> list[int]:
    """Tokens of each job in a pass: one while it generates; prompts share what is left, at least one each."""
    prompts = [len(job.due) for job, _ in work if len(job.due) > 1]
    left = CHUNK - (len(work) - len(prompts))
    share = max(1, left // max(1, len(prompts)))
    return [min(len(job.due), share) for job, _ in work]


def _outcome(job: Job, feed: Feed, fed) -> Outcome:
    outcome = Outcome(handed=len(feed.tokens))
    complete = outcome.handed == len(job.due) and job.wants_head
    if feed.want is Want.ALL:
        outcome.prompt_rows = fed.logits
        if complete:
            outcome.greedy, outcome.logits = fed.tokens[-1], fed.logits[-1]
    elif feed.want is Want.LAST:
        outcome.greedy = fed.tokens[-1]
        outcome.logits = None if fed.logits is None else fed.logits[-1]
    return outcome


class MachineBackend:
    """One job per step on a machine that holds one session; states are swapped when jobs take turns."""

    most = 1

    def __init__(self, machine: Machine, reopen: Callable[[], Machine], eos: int | None):
        self._machine, self._reopen, self._eos = machine, reopen, eos
        self._on_device: Handle | None = None
        self._swaps = 0

    def open(self, state: State | None) -> Handle:
        return Handle(state)

    def ingested(self, handle: Handle) -> int:
        assert handle is self._on_device
        return self._machine.position

    def snapshot(self, handle: Handle) -> State:
        assert handle is self._on_device
        state = self._machine.read_state()
        state.pending = None
        return state

    def step(self, work):
        ((job, handle),) = work
        self._bring(handle)
        machine, counts = self._machine, Counts()
        due = list(job.due[:SLICE_PROMPT])
        whole = len(due) == len(job.due)
        outcome = Outcome(handed=len(due))
        scored = job.in_prompt and job.wish.scores_prompt
        if handle.foreseen and due:
            if machine.pending != due[0]:
                machine.replace_pending(due[0])
            due, handle.foreseen = due[1:], False
        if not (whole and job.wants_head):
            wanted = Logits.ALL if scored else Logits.NONE
            if due or machine.pending is not None:
                self._count(counts, result := machine.run(due, 0, None, None, RunOptions(None, wanted)))
                if scored:  # the newest token stays pending: nothing follows it, so its row is not needed
                    outcome.prompt_rows = result.logits
        elif scored or job.needs_host or (job.settings is not None and not machine.features.sampling):
            self._host_chooses(job, handle, due, scored, outcome, counts)
        else:
            most = min(job.left, SLICE_TOKENS)
            result = machine.run(due, most, self._eos, None, RunOptions(job.settings, Logits.NONE))
            self._count(counts, result)
            outcome.tokens = result.tokens
        counts.swaps, self._swaps = self._swaps, 0
        return [outcome], counts

    def _host_chooses(self, job, handle, due, scored, outcome, counts) -> None:
        logits = job.needs_logits or scored
        wanted = Logits.ALL if scored else Logits.GENERATED if logits else Logits.NONE
        result = self._machine.run(due, 1, None, None, RunOptions(None, wanted))
        self._count(counts, result)
        handle.foreseen = True
        outcome.greedy = result.tokens[-1]
        if logits:
            outcome.logits = present(result.logits)[-1]
            outcome.greedy = None if job.needs_logits else outcome.greedy
        if scored:
            outcome.prompt_rows = result.logits

    def _bring(self, handle: Handle) -> None:
        """Put the handle's session on the machine."""
        if self._on_device is handle:
            return
        if self._on_device is not None:
            self._on_device.state = self._machine.read_state()
            self._swaps += 1
        self._on_device = None
        self._machine.reset()
        if handle.state is not None:
            self._machine.write_state(handle.state)
            handle.state = None
        self._on_device = handle

    def drop(self, handle: Handle) -> None:
        if self._on_device is handle:
            self._on_device = None

    def restart(self) -> None:
        self._on_device = None
        try:
            self._machine.close()
        finally:
            self._machine = self._reopen()

    def close(self) -> None:
        self._machine.close()

    @staticmethod
    def _count(counts: Counts, result) -> None:
        counts.passes += result.passes
        counts.heads += len(result.tokens)
        counts.active = result.active if counts.active is None else counts.active + result.active
        if result.cycles is not None:
            counts.cycles += result.cycles.total
        if result.drafts is not None:
            counts.drafted += result.drafts.proposed
            counts.accepted += result.drafts.accepted
        if result.bytes_read is not None:
            counts.bytes_read = (counts.bytes_read or 0) + sum(result.bytes_read.values())


def backend_for(machine: Machine, reopen: Callable[[], Machine], eos: int | None, most: int) -> Backend:
    """The backend of an opened machine; `reopen` opens it again after a fault."""
    if isinstance(machine, CpuMachine):

        def reopened() -> Engine:
            again = reopen()
            assert isinstance(again, CpuMachine)
            return again.engine

        return CpuBackend(machine.engine, reopened, min(most, CHUNK))
    return MachineBackend(machine, reopen, eos)


def check_wish(machine: Machine, job: Job) -> None:
    """A `UserError` unless the machine can do what the job asks for."""
    features = machine.features
    needs = job.needs_logits and (job.settings is None or job.needs_host or not features.sampling)
    if needs and not features.logits:
        raise UserError(
            f"the device {machine.name} gives no logits back, so it can neither sample nor score; "
            "use temperature 0 and no logprobs"
        )
