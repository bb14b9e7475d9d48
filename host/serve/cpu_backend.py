"""Jobs on the CPU engine: sessions that advance together, by one pass or by several."""

from collections.abc import Callable, Sequence

import numpy as np

from symlight.base.optional import present
from symlight.cpu.engine import CHUNK, Engine, Feed, Session, Want
from symlight.cpu.sampler import Sampler
from symlight.cpu.slices import SessionSlice, advance
from symlight.model.state import State

from .backend import Counts, Handle, Outcome
from .job import Job

SLICE_SECONDS = 0.001  # of passes without a look at new requests; one pass at least


class CpuHandle(Handle):
    """A session of the CPU engine, with what chooses its tokens from its first step on."""

    def __init__(self, session: Session):
        super().__init__(session.state)
        self.session = session
        self.sampler: Sampler | None = None
        self.slice: SessionSlice | None = None

    def slice_of(self, job: Job) -> SessionSlice:
        """The session's part in steps."""
        if self.slice is None:
            if job.settings is not None and not job.penalised:
                self.sampler = Sampler(job.settings)
            self.slice = SessionSlice(self.session, self.sampler, job.eos)
        return self.slice


class CpuBackend:
    """Sessions that advance together: each by a token, or by a share of what is left of a pass.

    Where the host has nothing to do between two tokens, a step is a slice: passes for some time, in which the
    engine chooses the tokens. A prompt ends a session's share of a step, so that its state can be kept.
    """

    def __init__(self, engine: Engine, reopen: Callable[[], Engine], most: int = CHUNK):
        self._engine, self._reopen, self.most = engine, reopen, most

    def open(self, state: State | None) -> Handle:
        return CpuHandle(Session.new(self._engine.shape) if state is None else Session(state))

    def ingested(self, handle: Handle) -> int:
        return present(handle.state).position

    def snapshot(self, handle: Handle) -> State:
        return present(handle.state).copy()

    def step(self, work):
        if any(job.needs_host or (job.in_prompt and job.wish.scores_prompt) for job, _ in work):
            return self._one_pass(work)
        slices, outcomes, seconds = [], [], SLICE_SECONDS
        for (job, handle), part in zip(work, _shares([job.due for job, _ in work]), strict=True):
            reached = job.handed + len(part)
            if reached < job.length:
                most, seconds = 0, 0.0  # the rest of a prompt shall not wait
            else:
                most = 0 if not job.wants_head else 1 if job.in_prompt else job.left
            slices.append(handle.slice_of(job))
            slices[-1].due(part, most)
            outcomes.append(Outcome(len(part)))
        done = advance(self._engine, slices, seconds)
        for outcome, one in zip(outcomes, slices, strict=True):
            outcome.tokens = one.chosen()
            outcome.handed += max(0, len(outcome.tokens) - 1)
        return outcomes, Counts(done.passes, done.heads, done.active)

    def _one_pass(self, work):
        parts = _shares([job.due for job, _ in work])
        feeds = [self._feed(job, handle, part) for (job, handle), part in zip(work, parts, strict=True)]
        results = self._engine.run(feeds)
        active = np.concatenate([fed.active for fed in results])
        counts = Counts(
            len(active), sum(len(fed.tokens) for fed in results), active.sum(axis=0, dtype=np.int64)
        )
        outcomes = [
            _outcome(job, feed, fed) for (job, _), feed, fed in zip(work, feeds, results, strict=True)
        ]
        return outcomes, counts

    def _feed(self, job: Job, handle: CpuHandle, part: Sequence[int]) -> Feed:
        handle.slice_of(job)
        session, sampler = handle.session, handle.sampler
        if job.in_prompt and job.wish.scores_prompt:
            return Feed(session, part, Want.ALL, logits=True, sampler=sampler)
        last = job.handed + len(part) == job.length and job.wants_head
        want = Want.LAST if last else Want.NOTHING
        return Feed(session, part, want, last and (job.scored or job.penalised), sampler=sampler)

    def drop(self, handle: Handle) -> None:
        """Nothing to give back."""

    def restart(self) -> None:
        self._engine.close()
        self._engine = self._reopen()

    def close(self) -> None:
        self._engine.close()


def _shares(due: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """What each job feeds in a pass, of the tokens due: one while it generates; prompts share what is left,
    at least one token each."""
    prompts = sum(len(tokens) > 1 for tokens in due)
    left = CHUNK - (len(due) - prompts)
    share = max(1, left // max(1, prompts))
    return [tokens[:share] for tokens in due]


def _outcome(job: Job, feed: Feed, fed) -> Outcome:
    outcome = Outcome(handed=len(feed.tokens))
    complete = outcome.handed == len(job.due) and job.wants_head
    if feed.want is Want.ALL:
        outcome.prompt_rows = fed.logits
        if complete:
            outcome.chosen, outcome.logits = fed.tokens[-1], fed.logits[-1]
    elif feed.want is Want.LAST:
        outcome.chosen = fed.tokens[-1]
        outcome.logits = None if fed.logits is None else fed.logits[-1]
    return outcome
