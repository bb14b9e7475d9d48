"""A conversation: turns over one machine, with the pending token kept between them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from symlight.model.errors import UserError
from symlight.model.state import State

from .machine import Machine, OnToken, RunResult
from .verify import Verifier

ShouldStop = Callable[[], bool]


@dataclass(frozen=True)
class Turn:
    """One prompt and what came of it.

    `verified` is None when nothing was compared; `wall_seconds` is the machine's share, without the
    comparison.
    """

    prompt: list[int]
    result: RunResult
    verified: bool | None
    wall_seconds: float


class Session:
    """Turns on `machine`.

    Parameters
    ----------
    machine : Machine
        Fresh or reset: the session starts at its position.
    eos : int | None
        Token that ends a turn; it is returned and stays pending.
    verifier : Verifier | None
        Runs the reference beside; the first difference is a `VerificationError`.
    """

    def __init__(self, machine: Machine, *, eos: int | None = None, verifier: Verifier | None = None):
        self.machine, self.eos, self._verifier = machine, eos, verifier
        self._seconds = 0.0  # the machine's share of the current turn

    def turn(
        self,
        prompt: Sequence[int],
        n_new: int,
        *,
        interactive: bool = False,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Turn:
        """Ingest what is pending and `prompt`, generate up to `n_new` tokens.

        In one run, or `interactive`ly with one token a run: then `should_stop` is asked after every token,
        and a turn that it ends has the stop reason "stop". Tokens and state are the same either way.
        """
        self._seconds = 0.0
        prompt = [int(token) for token in prompt]
        if interactive and n_new > 1:
            result = self._one_by_one(prompt, n_new, on_token, should_stop)
        else:
            result = self._run(prompt, n_new, on_token)
        if self._verifier is not None:
            self._verifier.check_state(self.machine)
        return Turn(prompt, result, None if self._verifier is None else True, self._seconds)

    def _one_by_one(self, prompt, n_new, on_token, should_stop) -> RunResult:
        result = self._run(prompt, 1, on_token)
        while len(result.tokens) < n_new and result.stop_reason != "eos":
            if should_stop is not None and should_stop():
                return result.stopped()
            result = result + self._run([], 1, on_token).as_decode()
        return result

    def _run(self, prompt: list[int], n_new: int, on_token: OnToken | None) -> RunResult:
        started = time.monotonic()
        result = self.machine.run(prompt, n_new, self.eos, on_token)
        self._seconds += time.monotonic() - started
        if self._verifier is not None:
            self._verifier.check_run(self.machine, prompt, n_new, self.eos, result)
        return result

    def reset(self) -> None:
        """Start again from zero state."""
        self.machine.reset()
        if self._verifier is not None:
            self._verifier.reset()

    def save(self, path: Path) -> None:
        """Write the session state to a file."""
        data = self.machine.read_state().to_bytes()
        try:
            path.write_bytes(data)
        except OSError as error:
            raise UserError(f"cannot write the session state to {path}: {error.strerror}") from error

    def load(self, path: Path) -> None:
        """Go on from a state that `save` wrote."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read the session state {path}: {error.strerror}") from error
        state = State.from_bytes(self.machine.shape, data, str(path))
        self.machine.write_state(state)
        if self._verifier is not None:
            self._verifier.set_state(state)
