"""The CPU engine as a machine: `--device cpu`, or `cpu:THREADS`."""

from collections.abc import Sequence

from symlight.base.errors import UserError
from symlight.cpu.drafts import MOST, NgramDrafts
from symlight.cpu.engine import Engine, Session, Undo
from symlight.model.state import State

from .choosing import PLAIN, Features, RunOptions, check_options, logit_fields
from .cpu_run import Run
from .machine import OnToken, RunResult, check_input


class CpuMachine:
    """A `host.device.machine.Machine` on an engine: the tokens and states of the reference.

    Parameters
    ----------
    engine : Engine
        Closed together with the machine.
    name : str
        As the user typed it.
    drafts : bool
        Guess tokens from the text that this machine has seen, and verify several in a pass. Runs give the
        same tokens, counts and states, only sooner where the text repeats itself.
    """

    clock_mhz = None
    features = Features(sampling=True, logits=True)

    def __init__(self, engine: Engine, name: str = "cpu", drafts: bool = False):
        self.engine, self.name, self.shape = engine, name, engine.shape
        self._undo = Undo(engine.shape, MOST + 1) if drafts else None
        self.reset()

    @property
    def position(self) -> int:
        return self._session.state.position

    @property
    def pending(self) -> int | None:
        return self._session.state.pending

    def reset(self) -> None:
        self._start(State.new(self.shape))

    def _start(self, state: State) -> None:
        self._session = Session(state)
        self._drafts = None if self._undo is None else NgramDrafts()
        if self._drafts is not None and state.pending is not None:
            self._drafts.append([state.pending])
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
        run = Run(self.engine, self._session, options, self._drafts, self._undo)
        try:
            run.ingest(inputs[:-1])
            self._session.state.pending = inputs[-1]
            if self._drafts is not None:
                self._drafts.append(prompt)
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
            drafts=run.drafts,
            **logit_fields(run.rows, options.logits, self.shape.vocab),
        )

    def replace_pending(self, token: int) -> None:
        if self.pending is None:
            raise UserError("no token is pending, so none can be replaced")
        if not 0 <= token < self.shape.vocab:
            raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1} of the model")
        self._session.state.pending = token
        if self._drafts is not None:
            self._drafts.replace_newest(token)

    def read_state(self) -> State:
        return self._session.state.copy()

    def write_state(self, state: State) -> None:
        self._start(state.copy())

    def close(self) -> None:
        self.engine.close()
