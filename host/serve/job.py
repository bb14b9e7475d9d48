"""One text to be written: what was asked for, how far it is, and what the client sees of it."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

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


class Piece(NamedTuple):
    """A part of the answer: text that may be shown, and the number of tokens that it came with.

    `scored`: these tokens, where log-probabilities are asked for. A tuple, because there is one per token.
    """

    text: str
    tokens: int = 0
    scored: "tuple[Scored, ...]" = ()


@dataclass(frozen=True)
class Scored:
    """A token of the answer. The first of a text has no `logprob` and no `alternatives` [(id, logprob)]."""

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


@lru_cache(maxsize=256)
def _settings(options: SamplingOptions, logit_scale: float | None) -> SamplerSettings:
    """Their fractions take longer than the rest of a job; requests differ in their seeds most of all."""
    return SamplerSettings.of(options, logit_scale)


class Job:
    """A `Wish` in progress. Owned by the scheduler's thread; `cancel` may be called from any thread.

    Attributes
    ----------
    generated : list of int
        The tokens chosen so far.
    handed : int
        Tokens of `prompt` + `generated` that the device has.
    eos : int | None
        The token that ends the text.
    settings : SamplerSettings | None
        Of drawn tokens; None: the likeliest.
    penalised, scored : bool
        Tokens are chosen from changed logits; log-probabilities are wanted.
    needs_logits : bool
        The host sees the whole logits of every generated token, unless the device draws and none is scored.
    needs_host : bool
        The host has something to do between two tokens.
    wants_head : bool
        The head is evaluated after the last token due.
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
        self._held = HeldText(wish.stop) if any(wish.stop) else None
        self._scorer = None
        if wish.logprobs is not None:
            self._scorer = Scorer(package.meta.logit_scale, wish.logprobs)
        self.settings = None
        if not wish.sampling.greedy:
            settings = _settings(wish.sampling.with_seed(0), package.meta.logit_scale)
            self.settings = replace(settings, seed=wish.sampling.seed)
        self._choice = None
        if wish.penalties.active:
            options = TurnOptions(wish.sampling, wish.penalties)
            self._choice = HostChoice(options, self.settings, package.meta.logit_scale, wish.prompt)
        self.eos = package.meta.eos
        self.penalised, self.scored = self._choice is not None, self._scorer is not None
        self.needs_logits = self.scored or self.penalised or self.settings is not None
        self.needs_host = self.scored or self.penalised or self._held is not None
        self.wants_head = wish.max_tokens > 0
        self._prompt_rows: list[np.ndarray] = []
        self._waiting: list[Scored] = []  # tokens whose text is not shown yet, where they are scored
        self._unshown = 0  # their number, scored or not
        self._echoed = not wish.echo

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
    def left(self) -> int:
        """Tokens that may still be generated."""
        return self.wish.max_tokens - len(self.generated)

    # ---- what the device gives ----

    def take_prompt_rows(self, rows: np.ndarray) -> None:
        """Logits after prompt tokens, in order; needed where the prompt has log-probabilities."""
        self._prompt_rows.extend(rows)

    def choose(self, chosen: int | None, logits: np.ndarray | None) -> int:
        """The next token: the device's own choice, unless there are penalties or none, from logits [V]."""
        position = len(self.wish.prompt) + len(self.generated)
        if self._choice is not None:
            return self._choice(present(logits), position)
        return choose(present(logits), self.settings, position) if chosen is None else int(chosen)

    def take(self, tokens: Sequence[int], logits: np.ndarray | None = None) -> None:
        """Generated tokens; emits what may be shown and, at the end, the finish. Those after it are dropped.

        `logits` [V] of a single token, where it is scored.
        """
        now = time.monotonic()
        if self.times.first_token is None:
            self.times.first_token = now
        self.times.last_token = now
        self._echo()
        for token in tokens:
            self.generated.append(token)
            text = "" if self._stream is None else self._stream.push(token)
            ended, stopped = token == self.eos, False
            last = ended or len(self.generated) >= self.wish.max_tokens
            if not ended:
                self._unshown += 1
                if self._scorer is not None:
                    score = _plain(self._scorer(token, present(logits)))
                    self._waiting.append(Scored(token, text, *score))
            if self._held is not None:
                text = self._held.push(text)
                stopped = self._held.stopped
                if last and not stopped:
                    text += self._held.rest()
            if text or last or stopped:
                self._emit(self, Piece(text, self._unshown, tuple(self._waiting)))
                self._waiting, self._unshown = [], 0
            if last or stopped:
                self.finish("stop" if ended or stopped else "length")
                return

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
        if self._echoed:
            return
        self._echoed = True
        prompt = self.wish.prompt
        stream = None if self._tokenizer is None else self._tokenizer.stream()
        pieces = ["" if stream is None else stream.push(token) for token in prompt]
        scored: tuple[Scored, ...] = ()
        if self._scorer is not None:
            rows = zip(prompt[1:], self._prompt_rows, strict=False)
            scores = [(None, None), *(_plain(self._scorer(token, row)) for token, row in rows)]
            scored = tuple(
                Scored(token, piece, *score)
                for token, piece, score in zip(prompt, pieces, scores, strict=True)
            )
        self._prompt_rows = []
        self._emit(self, Piece("".join(pieces), len(prompt), scored))


def _plain(score) -> tuple[float, tuple[tuple[int, float], ...]]:
    logprob, alternatives = score
    return logprob, tuple((other.id, other.logprob) for other in alternatives)
