"""What a session needs from whatever runs the model: the card, the simulated card or the integer reference.

`Machine` is the seam of the host: `host.device.driver.Accelerator` and
`host.device.reference_machine.ReferenceMachine` have its
members.
`RunResult` is what one run gives back.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

import numpy as np

from symlight.base.errors import UserError
from symlight.hw.interface import Io
from symlight.model.config import MAX_POSITION, ModelShape
from symlight.model.reference import SITES
from symlight.model.state import State

from .choosing import PLAIN, Features, RunOptions

OnToken = Callable[[int], None]
Progress = Callable[[str, int, int], None]  # stage, done, total (0: unknown)


def silent(stage: str, done: int, total: int) -> None:
    """The progress callback that shows nothing."""


@dataclass(frozen=True)
class Cycles:
    """Kernel cycles of a run; `total` includes start and mailbox. `phases`: name -> (stream, turnaround)
    cycles."""

    total: int
    prompt: int
    decode: int
    phases: dict[str, tuple[int, int]]

    def __add__(self, other: "Cycles") -> "Cycles":
        phases = {
            name: (stream + other.phases[name][0], gap + other.phases[name][1])
            for name, (stream, gap) in self.phases.items()
        }
        return Cycles(
            self.total + other.total, self.prompt + other.prompt, self.decode + other.decode, phases
        )

    def to_json(self) -> dict:
        phases = {name: {"stream": stream, "hand_over": gap} for name, (stream, gap) in self.phases.items()}
        return {"total": self.total, "prompt": self.prompt, "decode": self.decode, "phases": phases}


@dataclass(frozen=True)
class Drafts:
    """How speculation fared: passes over the weights that made tokens, tokens drafted, and accepted ones."""

    passes: int = 0
    proposed: int = 0
    accepted: int = 0

    def __add__(self, other: "Drafts") -> "Drafts":
        return Drafts(
            self.passes + other.passes, self.proposed + other.proposed, self.accepted + other.accepted
        )

    @property
    def share(self) -> float | None:
        """Accepted tokens over drafted ones; None when nothing was drafted."""
        return self.accepted / self.proposed if self.proposed else None

    def to_json(self) -> dict:
        return {**asdict(self), "share": self.share}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run, or several of one turn added up. `cycles` and `bytes_read` are None where nothing is timed.

    `logits` and `candidates` are None unless the run was asked for them (`host.choosing.Logits`).
    """

    tokens: list[int] = field(default_factory=list)
    stop_reason: str = "length"  # length, eos or stop
    prompt_passes: int = 0  # passes over the prompt or a token that was pending
    decode_passes: int = 0  # passes over a token generated in this turn
    active: np.ndarray  # [layers, 4] nonzero inputs by SITES, summed over the passes
    cycles: Cycles | None = None
    bytes_read: dict[str, int] | None = None
    logits: np.ndarray | None = None  # [rows, V] int64, a row per pass or per generated token
    candidates: np.ndarray | None = None  # [tokens, K, 2] int64: id and logit, in order
    drafts: Drafts | None = None  # where tokens were drafted

    @property
    def passes(self) -> int:
        return self.prompt_passes + self.decode_passes

    def as_decode(self) -> "RunResult":
        """The same run when its input was the turn's own newest token, which devices count as a pending
        one."""
        cycles = self.cycles
        if cycles is not None:
            cycles = replace(cycles, prompt=0, decode=cycles.prompt + cycles.decode)
        return replace(self, prompt_passes=0, decode_passes=self.passes, cycles=cycles)

    def stopped(self) -> "RunResult":
        """The same turn when the host ended it."""
        return replace(self, stop_reason="stop")

    def __add__(self, other: "RunResult") -> "RunResult":
        """This run and the next of the same turn."""
        bytes_read = cycles = drafts = None
        if self.drafts is not None and other.drafts is not None:
            drafts = self.drafts + other.drafts
        if self.cycles is not None and other.cycles is not None:
            cycles = self.cycles + other.cycles
        if self.bytes_read is not None and other.bytes_read is not None:
            bytes_read = {name: count + other.bytes_read[name] for name, count in self.bytes_read.items()}
        return RunResult(
            tokens=self.tokens + other.tokens,
            stop_reason=other.stop_reason,
            active=self.active + other.active,
            prompt_passes=self.prompt_passes + other.prompt_passes,
            decode_passes=self.decode_passes + other.decode_passes,
            cycles=cycles,
            bytes_read=bytes_read,
            logits=_joined(self.logits, other.logits),
            candidates=_joined(self.candidates, other.candidates),
            drafts=drafts,
        )

    def density(self, shape: ModelShape) -> np.ndarray | None:
        """Share of nonzero inputs, [layers, 4] by SITES; None without a pass."""
        if not self.passes:
            return None
        inputs = np.array([shape.ffn if site == "down" else shape.width for site in SITES])
        density: np.ndarray = self.active / (inputs * self.passes)
        return density


def _joined(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    return None if first is None or second is None else np.concatenate([first, second])


class Machine(Protocol):
    """A model with one session on it.

    Members
    -------
    name : str
        As the user typed it: "sim", "reference", "xrt:0".
    shape : ModelShape
    clock_mhz : float | None
        Kernel clock; None where nothing is timed.
    features : Features
        What it can do besides greedy runs.
    position, pending
        Of the session, as the last run left it.
    """

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> ModelShape: ...

    @property
    def clock_mhz(self) -> float | None: ...

    @property
    def features(self) -> Features: ...

    @property
    def position(self) -> int: ...

    @property
    def pending(self) -> int | None: ...

    def reset(self) -> None:
        """Start a new session; also the way out after a fault."""

    def run(
        self,
        prompt: Sequence[int],
        n_new: int,
        eos: int | None,
        on_token: OnToken | None = None,
        options: RunOptions = PLAIN,
    ) -> RunResult:
        """One run with the semantics of docs/arithmetic.md sections 7 and 9."""

    def replace_pending(self, token: int) -> None:
        """Make `token` the pending one; only with `features.logits`, and only while one is pending."""

    def read_state(self) -> State: ...

    def write_state(self, state: State) -> None: ...

    def close(self) -> None: ...


class Vocabulary(Protocol):
    """A model's shape, of whatever architecture, as far as the checks of an input need it."""

    @property
    def vocab(self) -> int: ...


class Stands(Protocol):
    """What has a session on a model: machines, sessions of the library, `Standing`."""

    @property
    def shape(self) -> Vocabulary: ...

    @property
    def position(self) -> int: ...

    @property
    def pending(self) -> int | None: ...


@dataclass(frozen=True)
class Standing:
    """Where a session stands, for `check_input` before there is a machine; the default is a new session."""

    shape: Vocabulary
    position: int = 0
    pending: int | None = None


def check_input(machine: Stands, prompt: Sequence[int], n_new: int, eos: int | None) -> None:
    """A `UserError` unless `machine` can do this run; asked before anything changes."""
    check_counts(machine, len(prompt), n_new)
    named = [("token", token) for token in prompt]
    if eos is not None:
        named.append(("the end-of-sequence token", eos))
    for what, token in named:
        if not 0 <= token < machine.shape.vocab:
            raise UserError(
                f"{what} {token} is outside the vocabulary 0..{machine.shape.vocab - 1} of the model"
            )


def check_counts(machine: Stands, n_prompt: int, n_new: int) -> None:
    """The part of `check_input` that needs no tokens."""
    inputs = n_prompt + (machine.pending is not None)
    if not inputs:
        raise UserError("nothing to run: the prompt is empty and no token is pending; give a prompt")
    if n_new < 0:
        raise UserError(f"the number of new tokens is {n_new}; it must not be negative")
    for what, count, limit in (
        ("the prompt has {} tokens", n_prompt, Io.MAX_PROMPT),
        ("{} new tokens are wanted", n_new, Io.MAX_NEW),
    ):
        if count > limit:
            raise UserError(
                f"{what.format(count)}, one turn takes at most {limit}; split it into several turns"
            )
    # the newest token stays pending, so the worst case ingests one token less than there are
    last = machine.position + inputs + n_new - 2
    if last >= MAX_POSITION:
        raise UserError(
            f"the run needs position {last}, a session has {MAX_POSITION} positions; start a new session"
        )
