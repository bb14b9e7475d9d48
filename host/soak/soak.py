"""The soak itself: a machine and the integer reference go through the same conversations."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.model.config import ModelShape
from symlight.model.session_file import SavedSession
from symlight.model.state import State
from symlight.model.weights import IntegerModel

from ..device.machine import Machine
from ..device.verify import Verifier
from .plan import Before, PlannedTurn, conversation
from .record import Record

PROBE_EVERY = 10  # turns: the most between two comparisons of the whole state
SAVE_SECONDS = 5.0  # between two calls of `save`


@dataclass(frozen=True)
class Limit:
    """When a soak ends: after so many turns or so many seconds, whichever is given."""

    turns: int | None = None
    seconds: float | None = None

    def progress(self, record: Record) -> tuple[int, int]:
        """(done, total) of what is limited."""
        if self.turns is not None:
            return min(record.counts.turns, self.turns), self.turns
        seconds = int(present(self.seconds))
        return min(int(record.seconds), seconds), seconds

    def reached(self, record: Record) -> bool:
        if self.turns is not None:
            return record.counts.turns >= self.turns
        return record.seconds >= present(self.seconds)


def wraps(shape: ModelShape, position: int) -> int:
    """Ring wraps of a session of `position` tokens: how often the slot after the anchors was written
    again."""
    return max(0, (position - 1 - shape.anchors) // (shape.window + 1))


class Soak:
    """Conversations on `machine` until a limit.

    Parameters
    ----------
    machine : Machine
    model : IntegerModel
        What the machine runs.
    record : Record
        Counts to go on from; kept up to date after every turn.
    save : callable(Record)
        Keeps the record: every few seconds, and when the soak ends in whatever way.
    on_turn : callable(Record)
        Progress.

    A difference is a `VerificationError`, a fault of the device a `UserError`, both with their place; the
    record then holds it.
    """

    def __init__(
        self,
        machine: Machine,
        model: IntegerModel,
        record: Record,
        *,
        save: Callable[[Record], None],
        on_turn: Callable[[Record], None],
    ):
        self._machine, self._record, self._save, self._on_turn = machine, record, save, on_turn
        self._verifier = Verifier(model)
        self._seed = record.settings["seed"]
        self._unprobed = 0  # turns since the last comparison of the whole state
        self._generated: list[int] = []  # of the conversation
        self._kept: tuple[bytes, State] | None = None  # the newest saved state, of device and reference

    def run(self, limit: Limit) -> None:
        record = self._record
        started, before = time.monotonic(), record.seconds
        record.sessions += 1
        saved = started

        def count_time() -> None:
            record.seconds = round(before + time.monotonic() - started, 3)

        try:
            while not limit.reached(record):
                number = record.next_conversation
                record.next_conversation += 1
                record.counts.conversations += 1
                self._start()
                wrapped = False
                for index, turn in enumerate(conversation(self._seed, number, self._machine.shape.vocab)):
                    wrapped = self._placed_turn(number, index, turn, wrapped)
                    count_time()
                    self._on_turn(record)
                    if limit.reached(record):
                        break
                if time.monotonic() - saved > SAVE_SECONDS:
                    self._save(record)
                    saved = time.monotonic()
        finally:
            count_time()
            self._save(record)

    def _start(self) -> None:
        """A new conversation."""
        self._machine.reset()
        self._verifier.reset()
        self._record.counts.resets += 1
        self._generated, self._kept = [], None

    def _placed_turn(self, number: int, index: int, turn: PlannedTurn, wrapped: bool) -> bool:
        """One turn, whose failure names its place; gives whether the conversation's ring has wrapped."""
        counts, shape = self._record.counts, self._machine.shape
        try:
            self._prepare(turn.before)
            before = wraps(shape, self._machine.position)
            self._turn(turn)
            new = wraps(shape, self._machine.position) - before
            self._unprobed += 1
            if new or self._unprobed >= PROBE_EVERY:
                self._probe()
        except UserError as error:
            place = f"conversation {number}, turn {index} of seed {self._seed}"
            self._record.failure = f"{place}: {error}"
            raise type(error)(self._record.failure) from error
        counts.turns += 1
        counts.single_turns += turn.single
        counts.empty_turns += not turn.prompt and not turn.n_new
        counts.ring_wraps += new
        counts.wrapped_conversations += bool(new) and not wrapped
        return wrapped or bool(new)

    def _probe(self) -> None:
        """Compare the whole state."""
        self._verifier.check_state(self._machine)
        self._record.counts.state_probes += 1
        self._unprobed = 0

    # ---- saving and loading ----

    def _prepare(self, before: Before) -> None:
        counts = self._record.counts
        if before in (Before.SAVE, Before.RELOAD):
            self._kept = SavedSession(state=self._machine.read_state()).to_bytes(), self._verifier.state()
            counts.saves += 1
        if before is Before.RELOAD:
            self._machine.reset()
            counts.resets += 1
        if before in (Before.LOAD, Before.RELOAD) and self._kept is not None:
            data, expected = self._kept
            self._machine.write_state(SavedSession.from_bytes(self._machine.shape, data).state)
            self._verifier.set_state(expected)
            counts.loads += 1
            self._probe()

    # ---- turns ----

    def _turn(self, turn: PlannedTurn) -> None:
        eos = None
        if turn.eos is not None and self._generated:
            eos = self._generated[int(turn.eos * len(self._generated))]
        if not turn.single or not (turn.prompt or turn.n_new):
            self._run(turn.prompt, turn.n_new, eos)
            return
        for token in turn.prompt:
            self._run([token], 0, eos)
        for _ in range(turn.n_new):
            if self._run([], 1, eos) == "eos":
                return

    def _run(self, prompt: list[int], n_new: int, eos: int | None) -> str:
        counts = self._record.counts
        result = self._machine.run(prompt, n_new, eos)
        self._verifier.check_run(self._machine, prompt, n_new, eos, result)
        self._generated += result.tokens
        counts.runs += 1
        counts.passes += result.passes
        counts.prompt_tokens += len(prompt)
        counts.new_tokens += len(result.tokens)
        counts.eos_stops += result.stop_reason == "eos"
        counts.cycles += 0 if result.cycles is None else result.cycles.total
        return result.stop_reason
