"""What a run leaves on the card besides its mailbox: generated tokens, and logits.

Tokens are read while the kernel is still writing them. Candidates and logits are read after a run, which has
room for those of `Io.CANDIDATE_TOKENS` tokens, of `LOGIT_HEADS` evaluated heads: a longer run is several of
the kernel's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from symlight.hw.channel.logits import LOGIT_BITS, LOGIT_HEADS, WORD_BYTES
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import CANDIDATES_BYTES, Io
from symlight.model.sampling import CANDIDATES

from .card import KernelCard
from .machine import OnToken, RunResult

_WINDOW = 1024  # tokens read at once while the kernel runs
_EMPTY = 0xFFFFFFFF  # no token; the host puts it wherever the run may write one
# A run of the kernel: prompt, tokens to generate.
PartialRun = Callable[[Sequence[int], int], RunResult]


class TokenArea:
    """Token words of one run."""

    def __init__(self, card: KernelCard):
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


class LogitReader:
    """The logits of the newest run's evaluated heads.

    Word n of channel k belongs to row n % lanes of tile n // lanes, which is vocabulary row
    (tile * channels + k) * lanes + row. One head's words follow another's.
    """

    def __init__(self, card: KernelCard, layout: Layout):
        self._card, self._layout = card, layout

    def read(self, heads: int) -> np.ndarray:
        """Logits [heads, V] int64."""
        layout, engine = self._layout, self._layout.engine
        offset = layout.logit_base * engine.beat_bytes
        size = heads * layout.head_logit_beats * engine.beat_bytes
        shape = (heads, layout.tiles, engine.lanes)
        rows = np.empty((heads, layout.tiles, engine.channels, engine.lanes), np.int64)
        for k in range(engine.channels if heads else 0):
            rows[:, :, k] = self._card.read(f"hbm{k:02d}", offset, size).view("<i8").reshape(shape)
        return rows.reshape(heads, layout.tiles * engine.channels * engine.lanes)[:, : layout.shape.vocab]


def unpack_candidates(words: np.ndarray, count: int) -> np.ndarray:
    """(id, logit) [tokens, count, 2] int64 of the kernel's words [tokens, K]."""
    words = words[:, :count].astype("<i8")
    unused = 8 * WORD_BYTES - LOGIT_BITS
    return np.stack([(words >> LOGIT_BITS) & ((1 << unused) - 1), words << unused >> unused], axis=2)


def run_with_candidates(
    card: KernelCard, run_part: PartialRun, prompt: Sequence[int], n_new: int, vocab: int
) -> RunResult:
    """A run whose candidates are read too: several where the kernel has no room for those of all tokens."""
    results: list[RunResult] = []
    rows = [np.zeros((0, min(CANDIDATES, vocab), 2), np.int64)]
    while not results or (n_new and results[-1].stop_reason != "eos"):
        part = min(n_new, Io.CANDIDATE_TOKENS)
        result = run_part([] if results else prompt, part)
        size = len(result.tokens) * CANDIDATES_BYTES
        words = card.read("io", Io.CANDIDATES, size).view("<u8") if size else np.zeros(0, "<u8")
        rows.append(unpack_candidates(words.reshape(-1, CANDIDATES), min(CANDIDATES, vocab)))
        results.append(result.as_decode() if results else result)
        n_new -= part
    total = results[0]
    for result in results[1:]:
        total = total + result
    return replace(total, candidates=np.concatenate(rows))


def run_with_logits(
    run_part: PartialRun,
    reader: LogitReader,
    prompt: Sequence[int],
    pending: bool,
    n_new: int,
    *,
    every: bool,
) -> RunResult:
    """A run whose logits are read too, those of `every` pass or of the generated tokens; `pending`: a token
    goes in before the prompt."""
    results: list[RunResult] = []
    rows: list[np.ndarray] = []
    left, generated = list(prompt), 0

    def part(count: int, new: int) -> RunResult:
        """Hand in `count` tokens of the prompt and generate `new` ones."""
        nonlocal left, pending, generated
        result = run_part(left[:count], new)
        rows.append(reader.read(result.passes if every else len(result.tokens)))
        results.append(result.as_decode() if generated else result)
        left, pending, generated = left[count:], True, generated + len(result.tokens)
        return result

    while every and pending + len(left) > LOGIT_HEADS:
        part(LOGIT_HEADS + 1 - pending, 0)  # the last one becomes pending
    while not results or left or generated < n_new:
        room = LOGIT_HEADS - max(pending + len(left) - 1, 0) * every
        if part(len(left), min(room, n_new - generated)).stop_reason == "eos":
            break
    total = results[0]
    for result in results[1:]:
        total = total + result
    return replace(total, logits=np.concatenate(rows))
