"""The integer reference as a machine: `--device reference`, and the other side of `--verify`."""

from collections.abc import Sequence

import numpy as np

from symlight.base.errors import UserError
from symlight.model.reference import PassResult, Reference
from symlight.model.state import State
from symlight.model.weights import IntegerModel

from .choosing import PLAIN, Features, Logits, RunOptions, check_options, logit_fields, logit_row
from .machine import OnToken, RunResult, check_input


class ReferenceMachine:
    """A `host.device.machine.Machine` without a kernel: same tokens, same state, no cycles."""

    name = "reference"
    clock_mhz = None
    features = Features(sampling=True, logits=True)

    def __init__(self, model: IntegerModel):
        self._reference = Reference(model)
        self.shape = model.shape
        self._lost = False

    @property
    def position(self) -> int:
        return self._reference.state.position

    @property
    def pending(self) -> int | None:
        return self._reference.state.pending

    def reset(self) -> None:
        self._reference.reset()
        self._lost = False

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
        active = np.zeros((self.shape.layers, 4), np.int64)
        passes = 0
        rows: list[np.ndarray] = []

        def on_pass(result: PassResult) -> None:
            nonlocal passes
            passes += 1
            active[...] += result.active
            if result.logits is not None and options.logits is not Logits.NONE:
                rows.append(logit_row(result.logits, options.logits))

        try:
            run = self._reference.generate(
                prompt,
                n_new,
                eos,
                on_token=on_token,
                on_pass=on_pass,
                settings=options.settings,
                all_logits=options.logits is Logits.ALL,
            )
        except KeyboardInterrupt:
            self._lost = True  # a pass may be half done
            raise
        prompt_passes = min(passes, inputs)
        return RunResult(
            tokens=run.tokens,
            stop_reason=run.stop_reason,
            active=active,
            prompt_passes=prompt_passes,
            decode_passes=passes - prompt_passes,
            **logit_fields(rows, options.logits, self.shape.vocab),
        )

    def replace_pending(self, token: int) -> None:
        if self.pending is None:
            raise UserError("no token is pending, so none can be replaced")
        if not 0 <= token < self.shape.vocab:
            raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1} of the model")
        self._reference.state.pending = token

    def read_state(self) -> State:
        return self._reference.state.copy()

    def write_state(self, state: State) -> None:
        self._reference.state = state.copy()
        self._lost = False

    def close(self) -> None:
        """Nothing to release."""
