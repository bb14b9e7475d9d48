"""The CPU engine as a machine: `--device cpu`, or `cpu:THREADS`."""

from collections.abc import Sequence

import numpy as np

from symlight.base.errors import UserError
from symlight.cpu.engine import CHUNK, Engine, Fed, Feed, Session, Want
from symlight.model.reference import SITES
from symlight.model.sampling import choose
from symlight.model.state import State

from .choosing import PLAIN, Features, Logits, RunOptions, check_options, logit_fields, logit_row
from .machine import OnToken, RunResult, check_input


class CpuMachine:
    """A `host.device.machine.Machine` on an engine: the tokens and states of the reference.

    Parameters
    ----------
    engine : Engine
        Closed together with the machine.
    name : str
        As the user typed it.
    """

    clock_mhz = None
    features = Features(sampling=True, logits=True)

    def __init__(self, engine: Engine, name: str = "cpu"):
        self.engine, self.name, self.shape = engine, name, engine.shape
        self._session = Session.new(engine.shape)
        self._lost = False

    @property
    def position(self) -> int:
        return self._session.state.position

    @property
    def pending(self) -> int | None:
        return self._session.state.pending

    def reset(self) -> None:
        self._session = Session.new(self.shape)
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
        inputs = [] if self.pending is None else [self.pending]
        inputs += [int(token) for token in prompt]
        run = _Run(self.engine, self._session, options)
        try:
            run.ingest(inputs[:-1])
            self._session.state.pending = inputs[-1]
            reason = run.generate(n_new, eos, on_token)
        except BaseException:
            self._lost = True  # a part of the input is in the session
            raise
        prompt_passes = min(run.passes, len(inputs))
        return RunResult(
            tokens=run.tokens,
            stop_reason=reason,
            active=run.active,
            prompt_passes=prompt_passes,
            decode_passes=run.passes - prompt_passes,
            **logit_fields(run.rows, options.logits, self.shape.vocab),
        )

    def replace_pending(self, token: int) -> None:
        if self.pending is None:
            raise UserError("no token is pending, so none can be replaced")
        if not 0 <= token < self.shape.vocab:
            raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1} of the model")
        self._session.state.pending = token

    def read_state(self) -> State:
        return self._session.state.copy()

    def write_state(self, state: State) -> None:
        self._session = Session(state.copy())
        self._lost = False

    def close(self) -> None:
        self.engine.close()


class _Run:
    """What a run gathers: tokens, passes, counts, rows of logits."""

    def __init__(self, engine: Engine, session: Session, options: RunOptions):
        self._engine, self._session, self._options = engine, session, options
        self._whole = options.settings is not None or options.logits is not Logits.NONE
        self.tokens: list[int] = []
        self.passes = 0
        self.active = np.zeros((engine.shape.layers, len(SITES)), np.int64)
        self.rows: list[np.ndarray] = []

    def ingest(self, tokens: list[int]) -> None:
        """Tokens whose successors are known."""
        want = Want.ALL if self._options.logits is Logits.ALL else Want.NOTHING
        for first in range(0, len(tokens), CHUNK):
            part = tokens[first : first + CHUNK]
            self._keep(self._engine.run([Feed(self._session, part, want, logits=want is Want.ALL)])[0])

    def generate(self, n_new: int, eos: int | None, on_token: OnToken | None) -> str:
        """Up to `n_new` tokens behind the pending one; gives the stop reason."""
        state = self._session.state
        while len(self.tokens) < n_new:
            fed = self._engine.run([Feed(self._session, [state.pending], Want.LAST, logits=self._whole)])[0]
            self._keep(fed)
            settings = self._options.settings
            token = fed.tokens[0] if settings is None else choose(fed.logits[0], settings, state.position)
            state.pending = token
            self.tokens.append(token)
            if on_token is not None:
                on_token(token)
            if token == eos:
                return "eos"
        return "length"

    def _keep(self, fed: Fed) -> None:
        self.passes += len(fed.active)
        self.active += fed.active.sum(axis=0)
        if fed.logits is not None and self._options.logits is not Logits.NONE:
            self.rows += [logit_row(row, self._options.logits) for row in fed.logits]
