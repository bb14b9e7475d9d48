"""SymbolicLight V1 as a machine: `--device cpu` with a V1 package."""

from dataclasses import dataclass, field

import numpy as np

from symlight.cpu.v1.engine import EngineV1, SessionV1
from symlight.model.reference import SITES
from symlight.model.sampling import choose
from symlight.model.v1.config import V1Shape
from symlight.model.v1.package import LOGIT_SCALE

from ..device.choosing import Logits, RunOptions, logit_row
from ..device.host_machine import HostMachine, Outcome
from ..device.machine import OnToken

NEVER = -(1 << 40)  # logit of a vocabulary row that no token has: nothing draws it


@dataclass
class V1MachineState:
    """A session of a V1 model, in memory only."""

    shape: V1Shape
    session: SessionV1
    pending: int | None = None

    @property
    def position(self) -> int:
        return self.session.position

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return sum(array.nbytes for array in self.session.arrays.values())

    def copy(self) -> "V1MachineState":
        return V1MachineState(self.shape, self.session.copy(), self.pending)


class V1Machine(HostMachine):
    """A `host.device.machine.Machine` on a V1 engine.

    Logits are floating-point numbers; the machine gives them as integers of `LOGIT_SCALE`, so that tokens are
    chosen by the same functions as everywhere.
    """

    shape: V1Shape

    def __init__(self, engine: EngineV1, name: str = "cpu"):
        self.engine, self.name, self.shape = engine, name, engine.shape
        self._rows = engine.package.pieces
        self.reset()

    def reset(self) -> None:
        self._begin()
        self._at = V1MachineState(self.shape, self.engine.session())

    @property
    def _state(self) -> V1MachineState:
        return self._at

    def _advance(
        self, prompt: list[int], n_new: int, eos: int | None, on_token: OnToken | None, options: RunOptions
    ) -> Outcome:
        inputs = [*([] if self.pending is None else [self.pending]), *prompt]
        run = _Run(options)
        self.engine.clear()
        reason = self._generate(inputs, n_new, eos, on_token, run)
        return Outcome(run.tokens, reason, self.engine.positions, self._active(), run.rows)

    def _generate(self, inputs: list[int], n_new: int, eos: int | None, on_token, run: "_Run") -> str:
        """The stop reason; the newest token stays pending."""
        state, settings = self._state, run.options.settings
        if len(inputs) > 1:
            ingested = inputs[:-1]
            wanted = len(ingested) if run.options.logits is Logits.ALL else 0
            run.keep(self._logits(ingested, wanted))
        state.pending = inputs[-1]
        while len(run.tokens) < n_new:
            logits = self._logits([state.pending], 1)
            run.keep(logits)
            state.pending = choose(logits[0], settings, self.position)
            run.tokens.append(state.pending)
            if on_token is not None:
                on_token(state.pending)
            if state.pending == eos:
                return "eos"
        return "length"

    def _logits(self, tokens: list[int], wanted: int) -> np.ndarray:
        """Integer logits [wanted, V] after the last tokens."""
        logits = self.engine.run(self._state.session, tokens, wanted=wanted, rows=self._rows)
        whole = np.full((wanted, self.shape.vocab), NEVER, np.int64)
        whole[:, : self._rows] = np.rint(logits.astype(np.float64) / LOGIT_SCALE)
        return whole

    def _active(self) -> np.ndarray:
        """Nonzero inputs [layers, 4] by SITES: those of qkv and up are dense."""
        dense = np.full(self.shape.layers, self.shape.width * self.engine.positions)
        by_site = {
            "qkv": dense,
            "up": dense,
            "decay": self.engine.active[:, 0],
            "down": self.engine.active[:, 1],
        }
        return np.stack([by_site[site] for site in SITES], axis=1)

    def read_state(self) -> V1MachineState:
        return self._state.copy()

    def write_state(self, state: V1MachineState) -> None:
        self._begin()
        self._at = state.copy()

    def close(self) -> None:
        self.engine.close()


@dataclass
class _Run:
    """What a run gathers: tokens and rows of logits."""

    options: RunOptions
    tokens: list[int] = field(default_factory=list)
    rows: list[np.ndarray] = field(default_factory=list)

    def keep(self, logits: np.ndarray) -> None:
        if self.options.logits is not Logits.NONE:
            self.rows += [logit_row(row, self.options.logits) for row in logits]
