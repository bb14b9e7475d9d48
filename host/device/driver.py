"""The accelerator as a machine: upload, runs, mailbox and session state over an opened card.

A run is: arguments and prompt out, start, short waits (each shows the tokens that have arrived), mailbox in.
Nothing is waited for without a limit: the kernel's watchdog counts cycles, the host counts seconds.
"""

import random
import time
from collections.abc import Callable, Sequence

import numpy as np

from symlight.base.errors import DeviceFault, UserError
from symlight.hw.compiler.image import build_images
from symlight.hw.compiler.layout import Layout
from symlight.hw.interface import (
    LONG_WATCHDOG_SHIFT,
    NO_EOS,
    SAMPLER_ARGUMENTS,
    Command,
    Flag,
    Io,
    StopReason,
)
from symlight.hw.sequencer.sampler_arguments import pack_settings
from symlight.model.sampling import SamplerSettings
from symlight.model.state import State
from symlight.model.weights import IntegerModel

from .card import SCALAR_LIMIT, KernelCard
from .choosing import PLAIN, Features, Logits, RunOptions, check_options
from .machine import OnToken, Progress, RunResult, check_input, silent
from .mailbox import BYTES as MAILBOX_BYTES
from .mailbox import Mailbox
from .run_outputs import LogitReader, TokenArea, run_with_candidates, run_with_logits
from .state_image import RingImage, check_fits, pack_state, state_bytes, unpack_state

CHUNK = 1 << 22  # bytes of an upload between two looks at progress and Ctrl-C
POLL_MS = 20  # a longer wait would hold Python's lock that long
SHORT_CYCLES = 5_000_000  # watchdog of everything but GENERATE
_LOGIT_FLAGS = {
    Logits.NONE: Flag(0),
    Logits.CANDIDATES: Flag.CANDIDATES,
    Logits.GENERATED: Flag.LOGITS,
    Logits.ALL: Flag.LOGITS | Flag.EVERY_HEAD,
}


class Accelerator:
    """A `host.device.machine.Machine` on a kernel.

    Parameters
    ----------
    card : KernelCard
        The opened kernel. Owned from here on.
    layout, model
        What is uploaded; `layout` has been checked against the kernel's engine.
    build_id : int
        Identity that the kernel must report.
    name : str
        For messages.
    cycles_per_second : float
        The least that the device does: turns a watchdog in cycles into a time limit.
    flags : int
        `hw.interface.Flag`s: modes of a kernel that fixes none.
    watchdog : int | None
        Cycles of a run; None: four times what every beat of memory would take.
    time_limit : float | None
        Seconds of a run; None: from the watchdog.
    grace_ms : int
        How long an interrupted run may go on, so that the card is left idle.
    """

    features = Features(sampling=True, logits=True)

    def __init__(
        self,
        card: KernelCard,
        layout: Layout,
        model: IntegerModel,
        *,
        build_id: int,
        name: str,
        cycles_per_second: float,
        flags: int = 0,
        watchdog: int | None = None,
        time_limit: float | None = None,
        grace_ms: int = 0,
        progress: Progress = silent,
    ):
        self.name, self.shape, self.clock_mhz = name, model.shape, layout.engine.clock_mhz
        self._card, self._layout, self._build_id = card, layout, build_id
        self.port_bytes = layout.engine.channels * layout.engine.beat_bytes  # that the ports carry per cycle
        self._rate, self._flags, self._watchdog = cycles_per_second, flags, watchdog
        self._time_limit, self._grace_ms = time_limit, grace_ms
        self._ring = RingImage(layout)
        self._tokens = TokenArea(card)
        self._position = 0
        self._pending: int | None = None
        self._lost: str | None = None  # why the session is gone; reset() brings a new one
        self._dead: str | None = None  # why the kernel cannot be used any more
        # Not 1: a mailbox that an earlier process left on the card must not look like ours.
        self._run_id = random.SystemRandom().randrange(1, SCALAR_LIMIT // 2)
        self._upload(model, progress)
        self._execute(Command.LOAD, watchdog=SHORT_CYCLES)

    @property
    def card(self) -> KernelCard:
        """The opened kernel; its device has sensors."""
        return self._card

    @property
    def build_id(self) -> int:
        """The identity that the kernel reported."""
        return self._build_id

    @property
    def position(self) -> int:
        return self._position

    @property
    def pending(self) -> int | None:
        return self._pending

    # ---- opening ----

    def _upload(self, model: IntegerModel, progress: Progress) -> None:
        images = build_images(self._layout, model)
        names = [f"hbm{k:02d}" for k in range(len(images))]
        self._card.allocate(
            {"io": Io.SIZE} | {name: image.size for name, image in zip(names, images, strict=True)}
        )
        self._identify()
        total = sum(image.size for image in images)
        done = 0
        for name, image in zip(names, images, strict=True):
            for offset in range(0, image.size, CHUNK):
                piece = image[offset : offset + CHUNK]
                self._card.write(name, offset, piece)
                done += piece.size
                progress("upload", done, total)

    def _identify(self) -> None:
        """Have the kernel say which build it is before it gets any weight: `_reply` compares.

        A kernel without a model refuses RESET, one that an earlier process has loaded obeys: both are
        answers.
        """
        self._reply(Command.RESET, watchdog=SHORT_CYCLES)

    # ---- sessions ----

    def reset(self) -> None:
        """Start a new session. After a fault the model is loaded again first."""
        if self._lost is None:
            self._execute(Command.RESET, watchdog=SHORT_CYCLES)
        else:
            self._lost = None
            self._execute(Command.LOAD, watchdog=SHORT_CYCLES)

    def run(
        self,
        prompt: Sequence[int],
        n_new: int,
        eos: int | None,
        on_token: OnToken | None = None,
        options: RunOptions = PLAIN,
    ) -> RunResult:
        """One run; refused before anything changes when it cannot be done."""
        self._check_session()
        check_input(self, prompt, n_new, eos)
        check_options(self.name, self.features, options)
        flags = _LOGIT_FLAGS[options.logits]

        def part(tokens: Sequence[int], count: int) -> RunResult:
            return self._generate(tokens, count, eos, on_token, flags, options.settings)

        if options.logits is Logits.NONE:
            return part(prompt, n_new)
        if options.logits is Logits.CANDIDATES:
            return run_with_candidates(self._card, part, prompt, n_new, self.shape.vocab)
        reader, every = LogitReader(self._card, self._layout), options.logits is Logits.ALL
        return run_with_logits(part, reader, prompt, self.pending is not None, n_new, every=every)

    def _generate(
        self,
        prompt: Sequence[int],
        n_new: int,
        eos: int | None,
        on_token: OnToken | None,
        flags: int = 0,
        settings: SamplerSettings | None = None,
    ) -> RunResult:
        """One run of the kernel."""
        sampler = {} if settings is None else pack_settings(settings)
        flags |= Flag.SAMPLE if sampler else 0
        ids = np.asarray(prompt, "<u4")
        self._card.write("io", Io.PROMPT, ids)
        self._tokens.clear(n_new)
        inputs = len(prompt) + (self._pending is not None)
        watchdog = self._watchdog or self._default_watchdog(inputs + n_new)
        poll = None if on_token is None else lambda: self._tokens.stream(on_token)
        mailbox = self._execute(
            Command.GENERATE,
            watchdog=watchdog,
            poll=poll,
            flags=self._flags | flags,
            **sampler,
            n_prompt=len(ids),
            n_new=n_new,
            eos=NO_EOS if eos is None else eos,
        )
        tokens = self._tokens.finish(mailbox.n_tokens, on_token)
        prompt_passes = min(mailbox.passes, inputs)
        return RunResult(
            tokens=tokens,
            stop_reason="eos" if mailbox.stop_reason == StopReason.EOS else "length",
            prompt_passes=prompt_passes,
            decode_passes=mailbox.passes - prompt_passes,
            active=mailbox.active(self.shape),
            cycles=mailbox.cycles(),
            bytes_read=mailbox.bytes_read(self._layout.engine.beat_bytes),
        )

    def replace_pending(self, token: int) -> None:
        """Make `token` the pending one: a run that forgets the old one and ingests nothing."""
        self._check_session()
        if self.pending is None:
            raise UserError("no token is pending, so none can be replaced")
        if not 0 <= token < self.shape.vocab:
            raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1} of the model")
        self._card.write("io", Io.PROMPT, np.array([token], "<u4"))
        flags = self._flags | Flag.REPLACE_PENDING
        self._execute(Command.GENERATE, watchdog=SHORT_CYCLES, flags=flags, n_prompt=1)

    def _default_watchdog(self, passes: int) -> int:
        one = 4 * self._layout.size + 20_000 * self.shape.layers + 50_000
        return min((SCALAR_LIMIT - 1) << LONG_WATCHDOG_SHIFT, one * passes)

    def read_state(self) -> State:
        """The whole session state, read back from the device."""
        self._check_session()
        self._execute(Command.DUMP, watchdog=SHORT_CYCLES)
        state = State.new(self.shape)
        state.position, state.pending = self._position, self._pending
        raw = self._card.read("io", Io.STATE, state_bytes(self._layout))
        unpack_state(self._layout, raw.view("<i2"), state)
        for layer, channel, offset, size in self._ring.pieces(state.populated):
            piece = self._card.read(f"hbm{channel:02d}", offset, size)
            self._ring.unpack(piece, state, layer, channel, state.populated)
        return state

    def write_state(self, state: State) -> None:
        """Make `state` the session's state. The ring goes to HBM; a kernel that keeps it on chip reads it
        there in the next pass."""
        check_fits(self._layout, state)
        if self._lost is not None:
            self.reset()
        for layer, channel, offset, _ in self._ring.pieces(state.populated):
            self._card.write(
                f"hbm{channel:02d}", offset, self._ring.pack(state, layer, channel, state.populated)
            )
        self._card.write("io", Io.STATE, pack_state(self._layout, state))
        words = (state.position, state.pending or 0, state.pending is not None)
        self._card.write("io", Io.PROMPT, np.array(words, "<u4"))
        self._execute(Command.RESTORE, watchdog=SHORT_CYCLES)

    def close(self) -> None:
        self._card.close()
        self._dead = self._dead or "the device is closed"

    # ---- one run ----

    def _check_session(self) -> None:
        if self._lost is not None:
            raise UserError(f"the session is gone ({self._lost}); reset it and start again")

    def _execute(
        self, command: Command, *, watchdog: int, poll: Callable[[], None] | None = None, **scalars
    ) -> Mailbox:
        """Run `command` and return its mailbox; every failure is a `UserError`."""
        mailbox = self._reply(command, watchdog=watchdog, poll=poll, **scalars)
        self._position, self._pending = mailbox.position, mailbox.pending
        if not mailbox.ok:
            self._lost = "the last run failed"
            raise DeviceFault(mailbox.fault(watchdog, self._card.reset))
        return mailbox

    def _reply(
        self, command: Command, *, watchdog: int, poll: Callable[[], None] | None = None, **scalars
    ) -> Mailbox:
        """Start `command`, wait, return its mailbox, whatever it says; a `UserError` when it is of another
        build."""
        if self._dead is not None:
            raise DeviceFault(f"{self.name} cannot be used any more: {self._dead}")
        self._run_id = self._run_id % (SCALAR_LIMIT - 1) + 1
        # Whatever an earlier run left in the mailbox must not be taken for this run's.
        self._card.write("io", Io.MAILBOX, np.zeros(MAILBOX_BYTES, np.uint8))
        unused = dict.fromkeys(("n_prompt", "n_new", *SAMPLER_ARGUMENTS), 0)
        arguments = unused | {"eos": NO_EOS, "flags": self._flags, **scalars}
        try:
            self._card.start(command=command, run_id=self._run_id, **_with_watchdog(arguments, watchdog))
            self._wait(watchdog, poll)
            raw = bytes(self._card.read("io", Io.MAILBOX, MAILBOX_BYTES))
            mailbox = Mailbox.decode(raw, self._run_id, self._card.reset)
            if mailbox.build_id != self._build_id:
                raise UserError(
                    f"the kernel on {self.name} is build {mailbox.build_id:032x}, "
                    f"its manifest says {self._build_id:032x}; use the manifest that belongs to it"
                )
        except UserError as error:
            self._dead = self._dead or str(error)
            raise
        except BaseException:  # Ctrl-C, or a callback that failed
            self._lost = "a run was interrupted"
            self._let_finish()
            raise
        return mailbox

    def _wait(self, watchdog: int, poll: Callable[[], None] | None) -> None:
        limit = self._time_limit
        if limit is None:
            limit = 10 + 1.5 * watchdog / self._rate
        deadline = time.monotonic() + limit
        while not self._card.wait(POLL_MS):
            if poll is not None:
                poll()
            if time.monotonic() > deadline:
                raise DeviceFault(
                    f"the run did not end within {limit:.3g} s, and a started kernel cannot be stopped from "
                    f"the host; {self._card.reset} (a simulated one just starts again) and give a larger "
                    "--time-limit if the run was only slow"
                )

    def _let_finish(self) -> None:
        """After Ctrl-C: wait a little for the kernel, which cannot be aborted; if it goes on, the card is
        unusable."""
        deadline = time.monotonic() + self._grace_ms / 1000
        while time.monotonic() < deadline:
            if self._card.wait(POLL_MS):
                return
        self._dead = "a run was interrupted and is still going on"


def _with_watchdog(arguments: dict[str, int], cycles: int) -> dict[str, int]:
    """Arguments of a run for at most `cycles` cycles: in longer units where they do not fit a scalar."""
    if cycles < SCALAR_LIMIT:
        return {**arguments, "watchdog": cycles}
    units = -(-cycles >> LONG_WATCHDOG_SHIFT)
    return {**arguments, "flags": arguments["flags"] | Flag.LONG_WATCHDOG, "watchdog": units}
