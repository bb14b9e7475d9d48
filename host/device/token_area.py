"""The generated tokens in the io buffer, read while the kernel is still writing them."""

import numpy as np

from symlight.hw.interface import Io

from .card import Card
from .machine import OnToken

_WINDOW = 1024  # tokens read at once while the kernel runs
_EMPTY = 0xFFFFFFFF  # no token; the host puts it wherever the run may write one


class TokenArea:
    """Token words of one run."""

    def __init__(self, card: Card):
        self._card = card
        self._size = 0
        self._shown: list[int] = []

    def clear(self, n_new: int) -> None:
        """Before a run of at most `n_new` tokens."""
        self._size, self._shown = n_new, []
        self._card.write("io", Io.TOKENS, np.full(n_new, _EMPTY, "<u4"))

    def stream(self, on_token: OnToken) -> None:
        """Hand on the tokens that have arrived since the last call."""
        done = len(self._shown)
        words = self._read(done, min(_WINDOW, self._size - done))
        written = np.flatnonzero(words == _EMPTY)
        words = words[: written[0]] if len(written) else words
        # The kernel writes whole beats: zeros at the end may be tokens to come, and wait for the next look.
        real = np.flatnonzero(words)
        self._hand_on(words[: real[-1] + 1] if len(real) else words[:0], on_token)

    def finish(self, count: int, on_token: OnToken | None) -> list[int]:
        """All tokens of the finished run; the rest goes to `on_token`."""
        tokens = [int(token) for token in self._read(0, count)]
        if on_token is not None:
            for token in tokens[len(self._shown) :]:
                on_token(token)
        return tokens

    def _hand_on(self, words: np.ndarray, on_token: OnToken) -> None:
        for word in words:
            self._shown.append(int(word))
            on_token(int(word))

    def _read(self, first: int, count: int) -> np.ndarray:
        return self._card.read("io", Io.TOKENS + 4 * first, 4 * count).view("<u4")
