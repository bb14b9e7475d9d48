"""What the library gives back: tokens with their text and log-probabilities, and whole completions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symlight.model.sampling import SamplingOptions, candidates, log_probabilities
from symlight.model.tokenizer import TextStream

from ..device.session import Turn

MAX_ALTERNATIVES = 64  # log-probabilities beside the token's own


@dataclass(frozen=True)
class Alternative:
    """A token that could have stood at a position. `logprob`: natural logarithm of its probability."""

    id: int
    logprob: float


@dataclass(frozen=True)
class Token:
    """One token of a text.

    Parameters
    ----------
    id : int
    text : str | None
        What the token adds to the text of its session. It is empty while a character is incomplete, and for
        the end of the sequence; None without a tokenizer.
    position : int
        Of the token in its session; the first has position 0.
    logprob : float | None
        Natural logarithm of the probability that the model gives it, before temperature, truncation and
        penalties. None unless asked for, and for the first token of a session.
    alternatives : tuple of Alternative | None
        The likeliest tokens, in order; None where `logprob` is None.
    """

    id: int
    text: str | None
    position: int
    logprob: float | None = None
    alternatives: tuple[Alternative, ...] | None = None


@dataclass(frozen=True)
class Completion:
    """A prompt and everything that was generated after it.

    Parameters
    ----------
    tokens : list of Token
        The generated tokens.
    text : str | None
        Their text, without the stop text that ended it; None without a tokenizer. A character that is
        incomplete at the end belongs to the text of the session's next call.
    stop_reason : str
        "length", "eos" or "stop".
    prompt : list of Token
        The tokens of the prompt. They have log-probabilities if these were asked for.
    sampling : SamplingOptions
        How the tokens were chosen, with the seed.
    turn : Turn
        Counts, cycles and time.
    """

    tokens: list[Token]
    text: str | None
    stop_reason: str
    prompt: list[Token]
    sampling: SamplingOptions
    turn: Turn

    @property
    def ids(self) -> list[int]:
        """Ids of the generated tokens."""
        return [token.id for token in self.tokens]


class Scorer:
    """Log-probabilities of tokens from logits rows.

    Parameters
    ----------
    logit_scale : float | None
        Of the package; None: the first row is refused.
    count : int
        Alternatives of a token, 0 .. `MAX_ALTERNATIVES`.
    """

    def __init__(self, logit_scale: float | None, count: int):
        self._scale, self._count = logit_scale, count

    def __call__(self, token: int, logits: np.ndarray) -> tuple[float, tuple[Alternative, ...]]:
        """(log-probability of `token`, the likeliest tokens) from the logits [V] it was chosen from."""
        row = log_probabilities(logits, self._scale)
        best = candidates(logits, self._count)[0] if self._count else ()
        return float(row[token]), tuple(Alternative(int(other), float(row[other])) for other in best)


class StopText:
    """Watches a growing text for the first of the stop texts."""

    def __init__(self, stops: Sequence[str]):
        self._stops = tuple(stop for stop in stops if stop)
        self.text = ""

    def push(self, piece: str) -> bool:
        """Add `piece`; True once a stop text has come."""
        self.text += piece
        return self.stopped

    @property
    def stopped(self) -> bool:
        return any(stop in self.text for stop in self._stops)

    @property
    def cut(self) -> str:
        """The text in front of the first stop text."""
        places = [self.text.find(stop) for stop in self._stops if stop in self.text]
        return self.text[: min(places)] if places else self.text


def labelled(
    stream: TextStream | None, ids: Sequence[int], position: int, scores: Sequence | None
) -> list[Token]:
    """Tokens from `position` on: each with the text that it adds to what `stream` has read, and its score."""
    return [
        Token(token, None if stream is None else stream.push(token), position + index, *(score or ()))
        for index, (token, score) in enumerate(zip(ids, scores or [None] * len(ids), strict=True))
    ]
