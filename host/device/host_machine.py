"""What machines that compute on this processor have in common: checks, pending token, interrupted runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from symlight.base.errors import UserError
from symlight.model.config import ModelShape
from symlight.model.v1.config import V1Shape

from .choosing import PLAIN, Features, RunOptions, check_options, logit_fields
from .machine import Drafts, OnToken, RunResult, check_input


class SessionState(Protocol):
    """A session: the next position, and the token that was chosen and not ingested yet."""

    @property
    def position(self) -> int: ...

    pending: int | None


@dataclass
class Outcome:
    """What came of a run. `active` [L, 4]: nonzero inputs by SITES; `rows`: logits that were asked for."""

    tokens: list[int]
    stop_reason: str
    passes: int
    active: np.ndarray
    rows: list[np.ndarray] = field(default_factory=list)
    drafts: Drafts | None = None


class HostMachine:
    """A `host.device.machine.Machine` without a kernel, so without cycles.

    A subclass has `name`, `shape`, `_state`, and `_advance`; it calls `_begin` when another session begins.
    """

    name: str
    shape: ModelShape | V1Shape
    clock_mhz = None
    features = Features(sampling=True, logits=True)
    _lost = False

    @property
    def _state(self) -> SessionState:
        raise NotImplementedError

    @property
    def position(self) -> int:
        return self._state.position

    @property
    def pending(self) -> int | None:
        return self._state.pending

    def _begin(self) -> None:
        """Another session begins, or an earlier one comes back."""
        self._lost = False

    def _advance(
        self, prompt: list[int], n_new: int, eos: int | None, on_token: OnToken | None, options: RunOptions
    ) -> Outcome:
        """Ingest the pending token and `prompt`, and generate; the newest token stays pending."""
        raise NotImplementedError

    def guess(self, tokens: Sequence[int]) -> None:
        """What the next run probably generates. It changes nothing but how long that takes."""

    def run(
        self,
        prompt: Sequence[int],
        n_new: int,
        eos: int | None,
        on_token: OnToken | None = None,
        options: RunOptions = PLAIN,
    ) -> RunResult:
        if self._lost:
            raise UserError("the session was interrupted in the middle of a run; reset it and start again")
        check_input(self, prompt, n_new, eos)
        check_options(self.name, self.features, options)
        inputs = len(prompt) + (self.pending is not None)
        try:
            outcome = self._advance([int(token) for token in prompt], n_new, eos, on_token, options)
        except BaseException:
            self._lost = True  # a part of the input is in the session
            raise
        prompt_passes = min(outcome.passes, inputs)
        return RunResult(
            tokens=outcome.tokens,
            stop_reason=outcome.stop_reason,
            active=outcome.active,
            prompt_passes=prompt_passes,
            decode_passes=outcome.passes - prompt_passes,
            drafts=outcome.drafts,
            **logit_fields(outcome.rows, options.logits, self.shape.vocab),
        )

    def replace_pending(self, token: int) -> None:
        if self.pending is None:
            raise UserError("no token is pending, so none can be replaced")
        if not 0 <= token < self.shape.vocab:
            raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1} of the model")
        self._state.pending = token

    def close(self) -> None:
        """Nothing to release, unless a subclass says so."""
