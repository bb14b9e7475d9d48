"""The integer reference as a machine: `--device reference`, and the other side of `--verify`."""

import numpy as np

from symlight.model.config import ModelShape
from symlight.model.reference import PassResult, Reference
from symlight.model.state import State
from symlight.model.weights import IntegerModel

from .choosing import Logits, RunOptions, logit_row
from .host_machine import HostMachine, Outcome
from .machine import OnToken


class ReferenceMachine(HostMachine):
    """A `host.device.machine.Machine` without a kernel: same tokens, same state, no cycles."""

    name = "reference"
    shape: ModelShape

    def __init__(self, model: IntegerModel):
        self._reference = Reference(model)
        self.shape = model.shape

    @property
    def _state(self) -> State:
        return self._reference.state

    def reset(self) -> None:
        self._begin()
        self._reference.reset()

    def _advance(
        self, prompt: list[int], n_new: int, eos: int | None, on_token: OnToken | None, options: RunOptions
    ) -> Outcome:
        outcome = Outcome([], "", 0, np.zeros((self.shape.layers, 4), np.int64))

        def on_pass(result: PassResult) -> None:
            outcome.passes += 1
            outcome.active += result.active
            if result.logits is not None and options.logits is not Logits.NONE:
                outcome.rows.append(logit_row(result.logits, options.logits))

        run = self._reference.generate(
            prompt,
            n_new,
            eos,
            on_token=on_token,
            on_pass=on_pass,
            settings=options.settings,
            all_logits=options.logits is Logits.ALL,
        )
        outcome.tokens, outcome.stop_reason = run.tokens, run.stop_reason
        return outcome

    def read_state(self) -> State:
        return self._reference.state.copy()

    def write_state(self, state: State) -> None:
        self._begin()
        self._reference.state = state.copy()
