"""What the scheduler needs of a device: sessions, steps that advance jobs, and what came of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from symlight.model.state import State

from .job import Job


class Handle:
    """A session of a backend.

    Attributes
    ----------
    state : State | None
        While the session is not on the device; CPU sessions always have theirs.
    """

    def __init__(self, state: State | None):
        self.state = state
        self.foreseen = False  # the machine's pending token is its own guess, not a token of the text


@dataclass
class Outcome:
    """What came of a job's share of a step.

    Parameters
    ----------
    handed : int
        Tokens of the text that the device has taken, those of `tokens` included.
    prompt_rows : [n, V] int64 | None
        Logits after the tokens taken, where the prompt is scored.
    tokens : list of int
        Chosen by the device, one after the other.
    chosen, logits : int | None, [V] int64 | None
        Where the host has its say after every token: the device's choice, and all logits.
    """

    handed: int = 0
    prompt_rows: np.ndarray | None = None
    tokens: list[int] = field(default_factory=list)
    chosen: int | None = None
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
