"""One text to be written: what was asked for, how far it is, and what the client sees of it."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from symlight.base.optional import present
from symlight.model.package import Package
from symlight.model.penalties import NO_PENALTIES, Penalties
from symlight.model.sampling import GREEDY, SamplerSettings, SamplingOptions, choose
from symlight.model.v1.package import V1Package

from ..device.choosing import HostChoice, TurnOptions
from ..library.completion import Scorer
from .held_text import HeldText

_NUMBERS = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What one choice of a request asks for.

    Parameters
    ----------
    prompt : tuple of int
        At least one token.
    max_tokens : int
    sampling, penalties
        How tokens are chosen.
    stop : tuple of str
        Texts that end the generation; never shown.
    logprobs : int | None
        Log-probabilities of the tokens, and of so many alternatives.
    echo : bool
        The prompt is a part of the answer; with `logprobs` its tokens have log-probabilities, too.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    sampling: SamplingOptions = GREEDY
    penalties: Penalties = NO_PENALTIES
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    echo: bool = False

    @property
    def scores_prompt(self) -> bool:
        return self.echo and self.logprobs is not None


@dataclass(frozen=True)
class Piece:
    """A part of the answer: text that may be shown, and the tokens it came with."""

    text: str
    tokens: tuple = ()  # of Scored


@dataclass(frozen=True)
class Scored:
    """A token of the answer. `logprob` and `alternatives` [(id, logprob)] are None unless asked for."""

    id: int
    text: str
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] | None = None


@dataclass(frozen=True)
class Finish:
    """The end of an answer: "stop" or "length", or the sentence of an error with its HTTP status."""

    reason: str | None
    error: str | None = None
    status: int = 200


@dataclass
class Times:
    """Monotonic seconds of what happened to a job; None: not yet."""

    arrived: float = field(default_factory=time.monotonic)
    started: float | None = None
    first_token: float | None = None
    last_token: float | None = None


class Job:
    """A `Wish` in progress. Owned by the scheduler's thread; `cancel` may be called from any thread.

    Attributes
    ----------
    generated : list of int
        The tokens chosen so far.
    handed : int
        Tokens of `prompt` + `generated` that the device has.
    times : Times
    """

    def __init__(
        self, wish: Wish, package: Package | V1Package, emit: Callable[["Job", Piece | Finish], None],
        *, client: str = "", deadline: float | None = None,
    ):  # fmt: skip
        self.number = next(_NUMBERS)
        self.wish, self.client, self.deadline, self._emit = wish, client, deadline, emit
        self.package = package
        self.generated: list[int] = []
        self.handed = 0
        self.times = Times()
        self.cancelled = self.finished = False
        self.failures = 0  # device faults that this job took part in
        self.reused = 0  # prompt tokens that a cached state held
        tokenizer = None if package.tokenizer_bytes is None else package.tokenizer
        self._tokenizer = tokenizer
        self._stream = None if tokenizer is None else tokenizer.stream(wish.prompt)
        self._held = HeldText(wish.stop)
        self._scorer = None
        if wish.logprobs is not None:
            self._scorer = Scorer(package.meta.logit_scale, wish.logprobs)
        self.settings = None
        if not wish.sampling.greedy:
            self.settings = SamplerSettings.of(wish.sampling, package.meta.logit_scale)
        self._choice = None
        if wish.penalties.active:
            options = TurnOptions(wish.sampling, wish.penalties)
            self._choice = HostChoice(options, self.settings, package.meta.logit_scale, wish.prompt)
        self._prompt_rows: list[np.ndarray] = []
        self._waiting: list[Scored] = []  # tokens whose text is not shown yet
        self._echoed = False

    # ---- what the device has to do ----

    @property
    def tokens(self) -> list[int]:
        return [*self.wish.prompt, *self.generated]

    @property
    def length(self) -> int:
        """Of `tokens`."""
        return len(self.wish.prompt) + len(self.generated)

    @property
    def due(self) -> Sequence[int]:
        """Tokens that the device does not have yet."""
        count = len(self.wish.prompt)
        if self.handed < count:
            return self.wish.prompt[self.handed :]
        return self.generated[self.handed - count :]

    @property
    def in_prompt(self) -> bool:
        """Nothing has been generated yet."""
        return not self.generated

    @property
    def needs_logits(self) -> bool:
        """The host sees the whole logits of every generated token."""
        return self._scorer is not None or self._choice is not None or self.settings is not None

    @property
    def needs_host(self) -> bool:
        """The host has something to do between two tokens."""
        return self._scorer is not None or self._choice is not None or bool(self.wish.stop)

    @property
    def left(self) -> int:
        """Tokens that may still be generated."""
        return self.wish.max_tokens - len(self.generated)

    @property
    def wants_head(self) -> bool:
        """The head is evaluated after the last token due."""
        return self.wish.max_tokens > 0

    # ---- what the device gives ----

    def take_prompt_rows(self, rows: np.ndarray) -> None:
        """Logits after prompt tokens, in order; needed where the prompt has log-probabilities."""
        self._prompt_rows.extend(rows)

    def choose(self, greedy: int | None, logits: np.ndarray | None) -> int:
        """The next token, from the device's own choice or from logits [V]."""
        position = len(self.wish.prompt) + len(self.generated)
        if self._choice is not None:
            return self._choice(present(logits), position)
        if self.settings is not None and logits is not None:
            return choose(logits, self.settings, position)
        return int(np.argmax(present(logits))) if greedy is None else int(greedy)

    def take(self, token: int, logits: np.ndarray | None = None) -> None:
        """A generated token; emits what may be shown and, at the end, the finish."""
        now = time.monotonic()
        if self.times.first_token is None:
            self.times.first_token = now
        self.times.last_token = now
        self.generated.append(token)
        self._echo()
        ended = token == self.package.meta.eos
        text = "" if self._stream is None else self._stream.push(token)
        if not ended:
            score = () if self._scorer is None else _plain(self._scorer(token, present(logits)))
            self._waiting.append(Scored(token, text, *score))
        last = ended or self.left <= 0
        shown = self._held.push(text)
        stopped = self._held.stopped
        if (last or stopped) and not stopped:
            shown += self._held.rest()
        if shown or last or stopped:
            self._emit(self, Piece(shown, tuple(self._waiting)))
            self._waiting = []
        if last or stopped:
            self.finish("stop" if ended or stopped else "length")

    def take_end_of_prompt(self) -> None:
        """The prompt is ingested and nothing is to be generated."""
        self._echo()
        self.finish("length")

    def finish(self, reason: str | None, error: str | None = None, status: int = 200) -> None:
        """End the job, once."""
        if not self.finished:
            self.finished = True
            self._emit(self, Finish(reason, error, status))

    def cancel(self) -> None:
        """The client has gone."""
        self.cancelled = True

    def restart(self) -> None:
        """The device lost the text: every token is handed to it again."""
        self.handed = 0
        self._prompt_rows = []

    def _echo(self) -> None:
        if self._echoed or not self.wish.echo:
            self._echoed = True
            return
        self._echoed = True
        prompt = self.wish.prompt
        stream = None if self._tokenizer is None else self._tokenizer.stream()
        pieces = ["" if stream is None else stream.push(token) for token in prompt]
        scores: list = [()] * len(prompt)
        if self._scorer is not None:
            rows = zip(prompt[1:], self._prompt_rows, strict=False)
            scores = [(None, None), *(_plain(self._scorer(token, row)) for token, row in rows)]
        self._prompt_rows = []
        scored = tuple(
            Scored(token, piece, *score) for token, piece, score in zip(prompt, pieces, scores, strict=True)
        )
        self._emit(self, Piece("".join(pieces) if self._tokenizer else "", scored))


def _plain(score) -> tuple[float, tuple[tuple[int, float], ...]]:
    logprob, alternatives = score
    return logprob, tuple((other.id, other.logprob) for other in alternatives)
