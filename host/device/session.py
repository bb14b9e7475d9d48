"""A conversation: turns over one machine, with the pending token kept between them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.model.config import ModelShape
from symlight.model.sampling import SamplerSettings, SamplingOptions
from symlight.model.session_file import SavedSession, read_session, write_session
from symlight.model.state import State

from .choosing import HostChoice, Logits, RunOptions, TurnOptions, check_options, logit_fields, logit_row
from .machine import Machine, OnToken, RunResult
from .verify import Verifier

ShouldStop = Callable[[], bool]
PLAIN_TURN = TurnOptions()
OnStep = Callable[[RunResult], None]
_OWN = object()  # the session's own end-of-sequence token


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
    verified_with: str | None = None  # what it was compared with

    def then(self, second: "Turn", prompt: list[int]) -> "Turn":
        """This turn and the next, which are one with `prompt` to the caller."""
        result, seconds = self.result + second.result, self.wall_seconds + second.wall_seconds
        return replace(second, prompt=prompt, result=result, wall_seconds=seconds)


def _kept(result: RunResult, on_step: OnStep | None) -> RunResult:
    """The result without the logits that `on_step` has taken."""
    if on_step is None:
        return result
    on_step(result)
    return replace(result, logits=None, candidates=None)


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
    logit_scale : float | None
        Of the package: what one logit unit means. Sampled turns need it.
    tokens : list of int | None
        The session's tokens so far, the pending one included; the turns add theirs to the same list. Tokens
        that nobody knows may be missing at its beginning.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        eos: int | None = None,
        verifier: Verifier | None = None,
        logit_scale: float | None = None,
        tokens: list[int] | None = None,
    ):
        self.machine, self.eos, self._verifier, self._scale = machine, eos, verifier, logit_scale
        self.tokens = [] if tokens is None else tokens
        self._seconds = 0.0  # the machine's share of the current turn

    def turn(
        self,
        prompt: Sequence[int],
        n_new: int,
        *,
        interactive: bool = False,
        on_token: OnToken | None = None,
        should_stop: ShouldStop | None = None,
        options: TurnOptions = PLAIN_TURN,
        on_step: OnStep | None = None,
    ) -> Turn:
        """Ingest what is pending and `prompt`, generate up to `n_new` tokens.

        In one run, or `interactive`ly with one token a run: then `should_stop` is asked after every token,
        and a turn that it ends has the stop reason "stop". Tokens and state are the same either way.
        Where the host chooses the tokens (penalties, or a device that gives logits but cannot sample), every
        turn is one token a run. `on_step` takes the result of every run, and the turn's own result then holds
        no logits.
        """
        self._seconds = 0.0
        prompt = [int(token) for token in prompt]
        if n_new and (interactive or self._host_chooses(options)):
            result = self._one_by_one(prompt, n_new, on_token, should_stop, options, on_step)
        else:
            result = _kept(self._run(prompt, n_new, on_token, self._run_options(options)), on_step)
        if self._verifier is not None:
            self._verifier.check_state(self.machine)
        compared = None if self._verifier is None else self._verifier.golden_name
        return Turn(prompt, result, None if compared is None else True, self._seconds, compared)

    def _one_by_one(self, prompt, n_new, on_token, should_stop, options, on_step) -> RunResult:
        steps = self.steps(prompt, n_new, options, on_token)
        result = _kept(next(steps), on_step)
        for _ in range(n_new - 1):
            if result.stop_reason == "eos":
                break
            if should_stop is not None and should_stop():
                return result.stopped()
            result = result + _kept(next(steps), on_step)
        return result

    def check(self, options: TurnOptions) -> None:
        """A `UserError` unless the machine and the model can do turns with `options`."""
        run = self._run_options(options)
        if self._host_chooses(options):
            options.penalties.check(self.machine.shape.vocab, self._scale)
            run = RunOptions(None, Logits.GENERATED)
        check_options(self.machine.name, self.machine.features, run)

    def steps(
        self,
        prompt: Sequence[int],
        n_new: int,
        options: TurnOptions = PLAIN_TURN,
        on_token: OnToken | None = None,
    ) -> Iterator[RunResult]:
        """A turn as one run per token; the session stands after the newest token whenever one is yielded."""
        prompt = [int(token) for token in prompt]
        run_options, choice = self._run_options(options), None
        self.check(options)
        if self._host_chooses(options):
            choice = HostChoice(options, self._settings(options), self._scale, prompt)
        for index in range(n_new):
            if choice is None:
                result = self._run(prompt, 1, on_token, run_options)
            else:
                result = self._chosen(prompt, choice, on_token, options.logits)
            yield result.as_decode() if index else result
            if result.stop_reason == "eos":
                return
            prompt = []

    def _settings(self, options: TurnOptions) -> SamplerSettings | None:
        return None if options.sampling.greedy else SamplerSettings.of(options.sampling, self._scale)

    def _host_chooses(self, options: TurnOptions) -> bool:
        """Whether the machine's own choice is replaced; a machine that can do neither refuses the run."""
        features = self.machine.features
        samples = not options.sampling.greedy and not features.sampling and features.logits
        return samples or options.penalties.active

    def _run_options(self, options: TurnOptions) -> RunOptions:
        return RunOptions(self._settings(options), options.logits)

    def _chosen(
        self, prompt: list[int], choice: HostChoice, on_token: OnToken | None, wanted: Logits
    ) -> RunResult:
        """One token: the machine evaluates the head, the host chooses."""
        read = wanted if wanted is Logits.ALL else Logits.GENERATED
        result = self._run(prompt, 1, None, RunOptions(None, read), eos=None)
        newest = present(result.logits)[-1]
        token = choice(newest, self.machine.position)
        self.machine.replace_pending(token)
        self.tokens[-1] = token
        if self._verifier is not None:
            self._verifier.replace_pending(token)
        if on_token is not None:
            on_token(token)
        if wanted is not Logits.ALL:
            rows = [] if wanted is Logits.NONE else [logit_row(newest, wanted)]
            fields = logit_fields(rows, wanted, len(newest))
            result = replace(result, logits=fields.get("logits"), candidates=fields.get("candidates"))
        return replace(result, tokens=[token], stop_reason="eos" if token == self.eos else "length")

    def _run(
        self, prompt: list[int], n_new: int, on_token: OnToken | None, options: RunOptions, eos=_OWN
    ) -> RunResult:
        eos = self.eos if eos is _OWN else eos
        started = time.monotonic()
        result = self.machine.run(prompt, n_new, eos, on_token, options)
        self._seconds += time.monotonic() - started
        self.tokens += [*prompt, *result.tokens]
        if self._verifier is not None:
            self._verifier.check_run(self.machine, prompt, n_new, eos, result, options)
        return result

    def reset(self) -> None:
        """Start again from zero state."""
        self.machine.reset()
        self.tokens.clear()
        if self._verifier is not None:
            self._verifier.reset()

    @property
    def begun(self) -> bool:
        """Whether the text began before `tokens`."""
        return len(self.tokens) < self.machine.position + (self.machine.pending is not None)

    def save(self, path: Path, sampling: SamplingOptions | None = None) -> None:
        """Write the session to a file, with the sampling options that a resumed run needs if given."""
        tokens = None if self.begun else self.tokens
        state = self.machine.read_state()
        if not isinstance(state, State):
            raise UserError("sessions of SymbolicLight V1 cannot be saved; keep the text and give it again")
        write_session(path, SavedSession(state=state, sampling=sampling, tokens=tokens))

    def load(self, path: Path) -> SamplingOptions | None:
        """Go on from a session that `save` wrote; returns the sampling options that it holds."""
        if not isinstance(self.machine.shape, ModelShape):
            raise UserError("sessions of SymbolicLight V1 cannot be loaded; give the text again")
        saved = read_session(path, self.machine.shape)
        self.machine.write_state(saved.state)
        pending = saved.state.pending
        self.tokens[:] = ([] if pending is None else [pending]) if saved.tokens is None else saved.tokens
        if self._verifier is not None:
            self._verifier.set_state(saved.state)
        return saved.sampling
