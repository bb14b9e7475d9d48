"""One session of a model: what it has read and written, and the tokens that come next."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.model.penalties import NO_PENALTIES, Penalties
from symlight.model.sampling import GREEDY, SamplingOptions
from symlight.model.state import State
from symlight.model.tokenizer import TextStream

from ..device.choosing import Logits, TurnOptions
from ..device.machine import RunResult, check_input
from ..device.session import Session as DeviceSession
from ..device.session import ShouldStop
from .completion import MAX_ALTERNATIVES, Alternative, Completion, Scorer, StopText, Token, labelled

if TYPE_CHECKING:
    from .model import Model, Prompt

OWN_EOS = -1  # the package's end-of-sequence token
OnLogits = Callable[[np.ndarray], None]
CHUNK = 64  # tokens whose logits are in memory at once


class Session:
    """A text in progress. `Model.session` makes one; any number can live beside each other.

    Attributes
    ----------
    sampling : SamplingOptions | None
        How the tokens of a loaded session were chosen, where its file says so.
    stored : State | None
        The state while it is not on the device. For `Model` only.
    lost : str | None
        Why the session cannot go on, or None.
    tokens : list of int
        The tokens so far, the pending one included; of a loaded bare state, the pending one only.
    """

    def __init__(self, model: "Model"):
        self._model = model
        self.stored: State | None = None
        self.sampling: SamplingOptions | None = None
        self.lost: str | None = None
        self.tokens: list[int] = []

    # ---- state ----

    @property
    def shape(self):
        return self._model.shape

    @property
    def position(self) -> int:
        """Tokens ingested so far."""
        if self._model.is_active(self):
            return self._model.machine.position
        return 0 if self.stored is None else self.stored.position

    @property
    def pending(self) -> int | None:
        """The newest token: part of the text, to be ingested by the next call."""
        if self._model.is_active(self):
            return self._model.machine.pending
        return None if self.stored is None else self.stored.pending

    @property
    def started(self) -> bool:
        """Whether there is any text."""
        return self.position > 0 or self.pending is not None

    def reset(self) -> None:
        """Start again from nothing."""
        with self._model.lock:
            if self._model.is_active(self):
                self._model.deactivate()
            self.stored = self.sampling = self.lost = None
            self.tokens.clear()

    def state(self) -> State:
        """A copy of the whole state."""
        with self._model.lock:
            if self._model.is_active(self):
                return self._model.machine.read_state()
            return State.new(self.shape) if self.stored is None else self.stored.copy()

    def restore(self, state: State, tokens: Sequence[int] | None = None) -> None:
        """Go on from `state`, which `tokens` led to if they are known."""
        if state.shape != self.shape:
            raise UserError("the state belongs to a model of another shape")
        known = ([] if state.pending is None else [state.pending]) if tokens is None else list(tokens)
        self.reset()
        self.stored, self.tokens[:] = state.copy(), known

    def copy(self) -> "Session":
        """Another session that stands where this one does."""
        other = Session(self._model)
        other.restore(self.state(), self.tokens)
        other.sampling = self.sampling
        return other

    def save(self, path: str | Path, sampling: SamplingOptions | None = None) -> None:
        """Write the session to a file, with `sampling` so that a resumed run chooses the same way."""
        with self._on_device() as device:
            device.save(Path(path), sampling)

    def load(self, path: str | Path) -> SamplingOptions | None:
        """Go on from a file that `save` wrote; returns the sampling options in it."""
        lost, self.lost = self.lost, None
        try:
            with self._on_device() as device:
                self.sampling = device.load(Path(path))
        except BaseException:
            self.lost = lost  # nothing has been loaded
            raise
        return self.sampling

    @contextmanager
    def _on_device(self, eos: int | None = None) -> Iterator[DeviceSession]:
        """The device with this session on it, for this thread alone."""
        model = self._model
        with model.lock:
            if self.lost is not None:
                raise UserError(f"the session is lost: {self.lost}; reset it")
            model.activate(self)
            yield DeviceSession(
                model.machine,
                eos=eos,
                verifier=model.verifier,
                logit_scale=model.logit_scale,
                tokens=self.tokens,
            )

    # ---- tokens ----

    def generate(
        self,
        prompt: "Prompt" = (),
        *,
        max_new_tokens: int = 64,
        sampling: SamplingOptions = GREEDY,
        penalties: Penalties = NO_PENALTIES,
        logprobs: int | None = None,
        stop: Sequence[str] = (),
        eos: int | None = OWN_EOS,
    ) -> Iterator[Token]:
        """Ingest `prompt` and give the tokens that follow, one run of the device per token.

        After every token the session ends with it, so an iterator that is left early or that a stop text ends
        loses nothing. Wrong values are refused at once, before the first token.

        Parameters
        ----------
        prompt : str or sequence of int
            Text or token ids; empty goes on from the newest token.
        max_new_tokens : int
        sampling, penalties
            How tokens are chosen; the default is greedy.
        logprobs : int | None
            Give every token its log-probability and those of so many alternatives.
        stop : sequence of str
            Texts that end the generation. The tokens that complete one are given, too.
        eos : int | None
            Token that ends the generation; default: the package's. None: nothing does.
        """
        ids = self._encode(prompt)
        eos = self._model.eos if eos == OWN_EOS else eos
        options = _turn_options(sampling, penalties, logprobs)
        with self._model.lock:
            check_input(self, ids, max_new_tokens, eos)
            DeviceSession(self._model.machine, logit_scale=self._model.logit_scale).check(options)
        return self._tokens(ids, max_new_tokens, options, self._scorer(logprobs), stop, eos)

    def _tokens(self, ids, count, options, scorer, stop, eos) -> Iterator[Token]:
        model, stream, watch = self._model, self._stream(ids), StopText(stop)
        steps = None
        for index in range(count):
            with self._on_device(eos) as device:
                if steps is None:
                    steps = device.steps(ids, count, options)
                result = next(steps)
                position = model.machine.position
            token = result.tokens[0]
            last = result.stop_reason == "eos" or index == count - 1
            piece = None
            if stream is not None:
                piece = stream.push(token)
                last = watch.push(piece) or last
            scored = () if scorer is None else scorer(token, present(result.logits)[-1])
            yield Token(token, piece, position, *scored)
            if last:
                return

    def complete(
        self,
        prompt: "Prompt" = (),
        *,
        max_new_tokens: int = 64,
        sampling: SamplingOptions = GREEDY,
        penalties: Penalties = NO_PENALTIES,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        stop: Sequence[str] = (),
        eos: int | None = OWN_EOS,
        interactive: bool = False,
        on_token: Callable[[Token], None] | None = None,
        on_logits: OnLogits | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Completion:
        """Ingest `prompt` and generate up to `max_new_tokens` in one run of the device.

        Where the host has work between the tokens, it takes one run per token, with the same result: for stop
        texts, penalties, log-probabilities of more than `CHUNK` tokens, `interactive`, `should_stop` (asked
        after every token), and on a device that cannot sample. Nothing is generated beyond a stop text.
        `prompt_logprobs` gives the prompt's tokens their log-probabilities. `on_token` gets every token as it
        comes, without its log-probability. `on_logits` gets the integer logits [n, V] of the passes in order,
        also those over the prompt.
        """
        model, ids = self._model, self._encode(prompt)
        eos = model.eos if eos == OWN_EOS else eos
        options = _turn_options(sampling, penalties, logprobs, every=on_logits is not None)
        scorer, watch = self._scorer(logprobs), StopText(stop)
        scores: list[tuple[float, tuple[Alternative, ...]]] = []
        stream, spelling, before = self._stream(ids), self._stream(), 0

        def on_id(token: int) -> None:
            nonlocal before
            piece = None if stream is None else stream.push(token)
            watch.push(piece or "")
            if on_token is not None:
                on_token(Token(token, piece, before))
            before += 1

        def on_step(result: RunResult) -> None:
            if on_logits is not None:
                on_logits(present(result.logits))
            if scorer is not None and result.tokens:
                scores.extend(map(scorer, result.tokens, present(result.logits)[-len(result.tokens) :]))

        def ends() -> bool:
            return watch.stopped or (should_stop is not None and should_stop())

        single = interactive or stop or should_stop or (logprobs is not None and max_new_tokens > CHUNK)
        with self._on_device(eos) as device:
            check_input(self, ids, max_new_tokens, eos)
            device.check(options)
            start = self.position + (self.pending is not None)
            before, left, ingested, prompt_scores = start + len(ids), ids, None, None
            if prompt_logprobs is not None:
                ingested, prompt_scores = self._ingest(device, ids, prompt_logprobs, on_logits)
                left = []
            turn = device.turn(
                left,
                max_new_tokens,
                interactive=bool(single),
                on_token=on_id,
                should_stop=ends,
                options=options,
                on_step=on_step,
            )
        if ingested is not None:
            turn = ingested.then(turn, ids)
        tokens = turn.result.tokens
        return Completion(
            # first of the prompt, then of the tokens: both read on in the text
            prompt=labelled(spelling, ids, start, prompt_scores),
            tokens=labelled(spelling, tokens, start + len(ids), scores),
            text=None if stream is None else (watch.cut if watch.stopped else watch.text),
            stop_reason="stop"
            if watch.stopped and turn.result.stop_reason == "length"
            else turn.result.stop_reason,
            sampling=sampling,
            turn=turn,
        )

    def logits(self, tokens: "Prompt") -> np.ndarray:
        """Integer logits [n, V] int64: row i follows token i. The session stays as it was."""
        ids = self._encode(tokens)
        rows: list[np.ndarray] = []
        with self._on_device() as device:
            before, tokens_before = self.state(), list(self.tokens)
            options = TurnOptions(logits=Logits.ALL)
            check_input(self, ids, 1, None)
            device.check(options)
            for first in range(0, len(ids), CHUNK):
                part, last = ids[first : first + CHUNK], first + CHUNK >= len(ids)
                rows.append(present(device.turn(part, int(last), options=options).result.logits))
            self.restore(before, tokens_before)
        return np.concatenate(rows)[-len(ids) :]  # without the row of a token that was pending

    def score(self, prompt: "Prompt", alternatives: int = 0) -> list[Token]:
        """Ingest `prompt`; its tokens with their log-probabilities. The first of a session has none."""
        return self.complete(prompt, max_new_tokens=0, prompt_logprobs=alternatives).prompt

    # ---- helpers ----

    def _scorer(self, count: int | None) -> Scorer | None:
        if count is None:
            return None
        if not 0 <= count <= MAX_ALTERNATIVES:
            raise UserError(
                f"{count} alternatives per token were asked for; at most {MAX_ALTERNATIVES} are given"
            )
        if self._model.logit_scale is None:
            raise UserError(
                "the package has no logit_scale, so there are no log-probabilities; ask for logits"
            )
        return Scorer(self._model.logit_scale, count)

    def _ingest(self, device: DeviceSession, ids: list[int], alternatives: int, on_logits: OnLogits | None):
        """Ingest all but the last token of `ids`: (turn, the score of each, None where there is none)."""
        options, scorer = TurnOptions(logits=Logits.ALL), present(self._scorer(alternatives))
        device.check(options)
        scores: list = [] if self.pending is not None else [None]
        turn = None
        for first in range(0, len(ids), CHUNK):

            def on_step(result: RunResult) -> None:
                if on_logits is not None:
                    on_logits(present(result.logits))
                count = len(scores)
                scores.extend(map(scorer, ids[count:], present(result.logits)))

            one = device.turn(ids[first : first + CHUNK], 0, options=options, on_step=on_step)
            turn = one if turn is None else turn.then(one, ids)
        return turn, scores

    def _encode(self, prompt: "Prompt") -> list[int]:
        return self._model.encode(prompt, continues=self.started)

    def _stream(self, ids: Sequence[int] = ()) -> TextStream | None:
        """Decoder of what comes after the session's text and `ids`."""
        tokenizer = self._model.tokenizer
        if tokenizer is None:
            return None
        begun = len(self.tokens) < self.position + (self.pending is not None)
        return tokenizer.stream([*self.tokens, *ids], begun=begun)


def _turn_options(
    sampling: SamplingOptions, penalties: Penalties, logprobs: int | None, *, every: bool = False
) -> TurnOptions:
    wanted = Logits.NONE if logprobs is None else Logits.GENERATED
    return TurnOptions(sampling, penalties, Logits.ALL if every else wanted)
