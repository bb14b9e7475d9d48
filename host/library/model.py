"""The library's front door: a model on a device, sessions on it, tokens out (docs/python.md).

    with symlight.open_model("demo", device="reference") as model:
        for token in model.generate("In the beginning", max_new_tokens=20):
            print(token.text, end="")

The command line and the HTTP server are written on it.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from symlight.base.errors import UserError
from symlight.model.config import ModelShape
from symlight.model.package import Package
from symlight.model.penalties import NO_PENALTIES, Penalties
from symlight.model.sampling import GREEDY, SamplingOptions, log_probabilities
from symlight.model.state import State
from symlight.model.tokenizer import Tokenizer
from symlight.model.v1.config import V1Shape
from symlight.model.v1.package import V1Package

from ..device.choosing import TurnOptions
from ..device.golden import golden_machine
from ..device.machine import Machine, Progress, silent
from ..device.opening import DeviceOptions, OpenedDevice
from ..device.packages import open_any
from ..device.session import Session as DeviceSession
from ..device.verify import Verifier
from .completion import Completion, Token
from .session import OWN_EOS, Session

Prompt = str | Sequence[int]


def open_model(
    package: str | Path | Package | V1Package = "demo",
    device: str = "reference",
    *,
    verify: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> "Model":
    """Open `package` (a folder, the name of a shipped one, or a loaded one) on `device`.

    `options` are further fields of `DeviceOptions`: `card`, `build`, `xclbin` and so on. `verify` runs the
    integer reference beside everything. A `UserError` says what is wrong, in one sentence.
    """
    loaded = package if isinstance(package, Package | V1Package) else open_any(str(package), lazy=True)
    return Model(loaded, DeviceOptions(device=device, **options), verify=verify, progress=progress)


class Model:
    """A model on a device. Use it in a `with`, or call `close`.

    A device holds one session at a time. `Model` keeps any number of them, and moves states as they are used;
    it may be used from several threads, which take turns token by token.

    Attributes
    ----------
    package : Package | V1Package
    machine : Machine
        The device.
    tokenizer : Tokenizer | None
    eos : int | None
        Token that ends a text.
    logit_scale : float | None
        Real value of one unit of an integer logit.
    """

    def __init__(
        self,
        package: Package | V1Package,
        options: DeviceOptions,
        *,
        verify: bool = False,
        progress: Progress = silent,
    ):
        v1 = isinstance(package, V1Package)
        if v1 and verify:
            raise UserError(
                f"{package.path} is a package of SymbolicLight V1, whose floating-point numbers no integer "
                "reference can verify; leave out --verify"
            )
        self.package = package
        self.tokenizer: Tokenizer | None = None if package.tokenizer_bytes is None else package.tokenizer
        self.eos, self.logit_scale = package.meta.eos, package.meta.logit_scale
        self.lock = threading.RLock()
        self._opened = OpenedDevice(options, package, progress)
        self.machine: Machine = self._opened.machine
        self.verifier: Verifier | None = None
        if verify and isinstance(package, Package):
            self.verifier = Verifier(package.model, golden=golden_machine(package, options, progress))
        self._active: weakref.ref[Session] | None = None  # whose state is on the device
        self._closed = self._used = False

    def __enter__(self) -> "Model":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the device back. Sessions end with it."""
        with self.lock:
            if not self._closed:
                self._closed = True
                self._opened.__exit__(None, None, None)
                if self.verifier is not None:
                    self.verifier.close()

    @property
    def name(self) -> str:
        """The model's name, out of its package."""
        return self.package.meta.name

    @property
    def device(self) -> str:
        """The device's name."""
        return self.machine.name

    @property
    def shape(self) -> ModelShape | V1Shape:
        return self.package.shape

    def encode(self, prompt: Prompt, *, continues: bool = False) -> list[int]:
        """Token ids of a text; a sequence of ids stays as it is.

        They begin with the beginning-of-sequence token if the package says so. A text that `continues` a
        session gets none; it keeps its leading blanks, and the tokenizer adds none.
        """
        if isinstance(prompt, str):
            return self.package.encode(prompt, continues=continues)
        return [int(token) for token in prompt]

    def check(self, *, sampling: SamplingOptions = GREEDY, penalties: Penalties = NO_PENALTIES) -> None:
        """A `UserError` unless the device can choose tokens so."""
        device = DeviceSession(self.machine, logit_scale=self.logit_scale)
        device.check(TurnOptions(sampling, penalties))

    # ---- sessions ----

    def session(self) -> Session:
        """A new session: nothing ingested, position 0."""
        return Session(self)

    def load_session(self, path: str | Path) -> Session:
        """A session that `Session.save` wrote."""
        session = Session(self)
        session.load(path)
        return session

    def activate(self, session: Session) -> None:
        """Put `session` on the device; what was on it is kept. For `Session` only, under `lock`."""
        current = None if self._active is None else self._active()
        if current is session:
            return
        if current is not None:
            try:
                current.stored = self.machine.read_state()
            except UserError as error:
                current.lost = str(error)
        self._active = None  # until the new state is there
        if self._used:
            self.machine.reset()
        if self.verifier is not None:
            self.verifier.reset()
        self._used = True
        if session.stored is not None:
            self._put(session.stored)
        session.stored = None
        self._active = weakref.ref(session)

    def is_active(self, session: Session) -> bool:
        return self._active is not None and self._active() is session

    def deactivate(self) -> None:
        """The device's session is no longer anybody's."""
        self._active = None

    def _put(self, state: State) -> None:
        self.machine.write_state(state)
        if self.verifier is not None:
            self.verifier.set_state(state)

    # ---- one call, a session of its own ----

    def generate(
        self,
        prompt: Prompt,
        *,
        max_new_tokens: int = 64,
        sampling: SamplingOptions = GREEDY,
        penalties: Penalties = NO_PENALTIES,
        logprobs: int | None = None,
        stop: Sequence[str] = (),
        eos: int | None = OWN_EOS,
    ) -> Iterator[Token]:
        """Tokens after `prompt` in a new session, as they come: `Session.generate`."""
        return self.session().generate(
            prompt,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            penalties=penalties,
            logprobs=logprobs,
            stop=stop,
            eos=eos,
        )

    def complete(
        self,
        prompt: Prompt,
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
    ) -> Completion:
        """The whole continuation of `prompt` in a new session: `Session.complete`."""
        return self.session().complete(
            prompt,
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            penalties=penalties,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            stop=stop,
            eos=eos,
            interactive=interactive,
            on_token=on_token,
        )

    def logits(self, tokens: Prompt) -> np.ndarray:
        """Integer logits [n, V] int64: row i follows token i. In a session of its own."""
        return self.session().logits(tokens)

    def log_probabilities(self, tokens: Prompt) -> np.ndarray:
        """Log-probabilities [n, V] float64: row i says what may follow token i."""
        return log_probabilities(self.logits(tokens), self.logit_scale)

    def score(self, prompt: Prompt, alternatives: int = 0) -> list[Token]:
        """The tokens of `prompt` with their log-probabilities; the first has none."""
        return self.session().score(prompt, alternatives)
