"""What a run leaves on the card besides its mailbox: generated tokens, and logits.

Tokens are read while the kernel is still writing them. Logits of an evaluated head overwrite those of the one
before: the host reads them after every such pass, so a run that asks for logits is a run of the kernel per
token.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from symlight.hw.channel.logits import WORD_BYTES
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import Io

from .card import Card
from .choosing import Logits, logit_fields, logit_row
from .machine import OnToken, RunResult

_WINDOW = 1024  # tokens read at once while the kernel runs
_EMPTY = 0xFFFFFFFF  # no token; the host puts it wherever the run may write one
# A run of the kernel that writes logits: prompt, end-of-sequence token, callback.
KernelRun = Callable[[Sequence[int], int | None, OnToken | None], RunResult]


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


class LogitReader:
    """The logits of the head that a kernel evaluated last.

    Word n of channel k belongs to row n % lanes of tile n // lanes, which is vocabulary row
    (tile * channels + k) * lanes + row.
    """

    def __init__(self, card: Card, layout: Layout):
        self._card, self._layout = card, layout

    def read(self) -> np.ndarray:
        """Logits [V] int64."""
        layout, engine = self._layout, self._layout.engine
        offset, size = layout.logit_base * engine.beat_bytes, layout.tiles * engine.lanes * WORD_BYTES
        rows = np.stack(
            [
                self._card.read(f"hbm{k:02d}", offset, size).view("<i8").reshape(layout.tiles, engine.lanes)
                for k in range(engine.channels)
            ],
            axis=1,
        )
        return rows.reshape(-1)[: layout.shape.vocab].astype(np.int64)


def run_with_logits(
    machine,
    run_one: KernelRun,
    reader: LogitReader,
    prompt: Sequence[int],
    n_new: int,
    eos: int | None,
    on_token: OnToken | None,
    wanted: Logits,
) -> RunResult:
    """A run of `machine` that gives `wanted` logits; `run_one` generates one token."""
    rows: list[np.ndarray] = []
    left, results = list(prompt), []
    if wanted is Logits.ALL:
        left, results = _every_input(machine, run_one, reader, left, rows)
    while sum(len(result.tokens) for result in results) < n_new:
        decoding = any(result.tokens for result in results)
        result = run_one(left, eos, on_token)
        rows.append(logit_row(reader.read(), wanted))
        results.append(result.as_decode() if decoding else result)
        left = []
        if result.stop_reason == "eos":
            break
    if left or not results:  # the last input of a run without new tokens
        results.append(machine.run(left, 0, eos))
    total = results[0]
    for result in results[1:]:
        total = total + result
    return replace(total, **logit_fields(rows, wanted, machine.shape.vocab))


def _every_input(machine, run_one: KernelRun, reader: LogitReader, prompt: list[int], rows: list):
    """Ingest all inputs but the last, each with its head: (what is left of the prompt, the results).

    The head's own choice becomes pending, and the next input takes its place.
    """
    results: list[RunResult] = []
    inputs = ([] if machine.pending is None else [None]) + prompt
    for index, token in enumerate(inputs[:-1]):
        result = run_one([] if token is None or index else [token], None, None)
        rows.append(reader.read())
        results.append(replace(result, tokens=[], stop_reason="length"))
        machine.replace_pending(inputs[index + 1])
    # after a pass the last input is pending already
    return ([] if results or inputs[-1] is None else prompt), results
