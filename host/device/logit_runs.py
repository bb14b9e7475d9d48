"""Runs that give logits back, on a kernel: a run per evaluated head, and the logits that it left.

A kernel writes the logits of an evaluated head over those of the one before. So the host reads them after
every such pass, and a run that asks for logits is one run of the kernel per token.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from symlight.hw.channel.logits import WORD_BYTES
from symlight.hw.compiler.layout import Layout

from .card import Card
from .choosing import Logits, logit_fields, logit_row
from .machine import OnToken, RunResult

# A run of the kernel that writes logits: prompt, end-of-sequence token, callback.
KernelRun = Callable[[Sequence[int], int | None, OnToken | None], RunResult]


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
