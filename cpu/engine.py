"""The engine: passes over tokens of one session or of many (docs/cpu.md).

engine = Engine(Weights.pack(model), threads=2)
session = Session.new(engine.shape)
fed = engine.run([Feed(session, [5, 7, 9], Want.LAST)])[0]
fed.tokens[0]        # the greedy token after 9
"""

import ctypes
import os
from collections.abc import Sequence
from ctypes import Structure, c_int32
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.model.config import MAX_POSITION, ModelShape
from symlight.model.reference import SITES
from symlight.model.state import State

from . import abi
from .build import Progress
from .isa import find
from .library import Library
from .sampler import Sampler
from .weights import Weights

CHUNK = 128  # tokens of a pass at most
MOST_THREADS = 8  # by default: a decode pass is bound by memory before that
BYTES_A_THREAD = 4 << 20  # of weights: what makes another thread worth while


class Want(Enum):
    """At which tokens of a feed the head is evaluated; the values are indices of abi.WANTS."""

    NOTHING, LAST, ALL = range(len(abi.WANTS))


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]  # in half the time of array.ctypes.data
    return address


class Session:
    """A session: its `state` is advanced in place by the passes that the session takes part in."""

    def __init__(self, state: State):
        self.state = state
        self._arrays = state.membrane, state.decay, state.ring_k, state.ring_v
        assert all(array.flags.c_contiguous and array.flags.writeable for array in self._arrays)
        self.pointers = tuple(map(_address, self._arrays))  # the first fields of a Part

    @classmethod
    def new(cls, shape: ModelShape) -> "Session":
        """A session with nothing in it."""
        return cls(State.new(shape))


class Undo:
    """What it takes to take back the last tokens of a feed of up to `tokens` tokens."""

    def __init__(self, shape: ModelShape, tokens: int):
        layered = (tokens, shape.layers, shape.width)
        self._arrays: dict[str, np.ndarray] = {
            "undo_membrane": np.zeros((tokens, shape.width), np.int16),
            "undo_decay": np.zeros(layered, np.int16),
            "undo_k": np.zeros(layered, np.int8),
            "undo_v": np.zeros(layered, np.int8),
        }
        self._places = [(name, _address(array), array.strides[0]) for name, array in self._arrays.items()]

    def place(self, part: Structure, first: int) -> None:
        """Point the part at the records of tokens `first` and following."""
        for name, address, stride in self._places:
            setattr(part, name, address + stride * first)

    def take_back(self, state: State, fed: int, kept: int) -> None:
        """Leave the first `kept` >= 1 of the `fed` tokens in `state`."""
        if kept == fed:
            return
        state.membrane[:] = self._arrays["undo_membrane"][kept - 1]
        state.decay[:] = self._arrays["undo_decay"][kept - 1]
        first = state.position - fed
        for token in range(fed - 1, kept - 1, -1):  # the same slot twice: the oldest content wins
            slot = state.shape.slot(first + token)
            state.ring_k[:, slot] = self._arrays["undo_k"][token]
            state.ring_v[:, slot] = self._arrays["undo_v"][token]
        state.position = first + kept


@dataclass
class Feed:
    """Tokens for a session, in order.

    `logits`: whole vectors of logits, not the token alone. `undo`: keep what takes tokens back again.
    `sampler`: draw the tokens; None takes the largest logit.
    """

    session: Session
    tokens: Sequence[int]
    want: Want = Want.NOTHING
    logits: bool = False
    undo: Undo | None = None
    sampler: Sampler | None = None


@dataclass
class Fed:
    """What came of a feed.

    `tokens`: those chosen after each wanted position. `logits` [wanted, V] int64, or None unless asked for.
    `active` [tokens, L, 4] int32: nonzero inputs by SITES. `optional` [tokens, L + 2] int32: those of W_O by
    layer, and nonzero elements of the head's a and g (0 where it was not evaluated).
    """

    active: np.ndarray
    optional: np.ndarray
    tokens: list[int] = field(default_factory=list)
    logits: np.ndarray | None = None


def default_threads(weight_bytes: int | None = None) -> int:
    """As many as this process has processors, at most MOST_THREADS.

    Fewer for small models (`weight_bytes` of matrices): their threads would wait for each other.
    """
    most = MOST_THREADS if weight_bytes is None else max(1, weight_bytes // BYTES_A_THREAD)
    return min(len(os.sched_getaffinity(0)), MOST_THREADS, most)


class Engine:
    """A model on the processor.

    Parameters
    ----------
    weights : Weights
    threads : int | None
        None: `default_threads` of the weights.
    isa : str | None
        Name of an instruction set (cpu.isa); None: the best that this machine has.
    cache : Path | None
        Of compiled libraries.
    progress : callable(stage, done, total)
        Told when the kernels have to be compiled.
    library : Library | None
        Compiled kernels that are there already, instead of `isa` and `cache`.
    every_row : bool
        Read the rows of zero events, too: to measure what skipping them brings.

    Not to be used by two threads at a time.
    """

    def __init__(
        self,
        weights: Weights,
        threads: int | None = None,
        *,
        isa: str | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
        library: Library | None = None,
        every_row: bool = False,
    ):
        self.weights, self.shape = weights, weights.shape
        self.threads = default_threads(weights.matrix_bytes) if threads is None else threads
        self._library = library or Library(find(isa), cache, progress)
        self.isa, self.library = self._library.isa.name, self._library.key
        self._model = weights.structure(every_row)
        self._handle = self._library.engine(ctypes.byref(self._model), self.threads)
        if not self._handle:
            raise UserError(f"{self.threads} threads cannot be started; take fewer (cpu:THREADS)")

    def profile(self) -> dict[str, tuple[int, int]]:
        """(nanoseconds, bytes read) by abi.OPERATIONS, summed over all passes so far."""
        sums = self._library.profile(self._handle).contents
        return dict(zip(abi.OPERATIONS, zip(sums.nanoseconds, sums.bytes, strict=True), strict=True))

    def read_weights(self) -> int:
        """Read all matrices once with every thread; gives the bytes read. Its time is the limit of a pass."""
        size = self.weights.matrix_bytes // abi.READ_BYTES * abi.READ_BYTES
        self._library.read(self._handle, self.weights.buffer.ctypes.data, size)
        return size

    def close(self) -> None:
        """End the threads."""
        if self._handle:
            self._library.free(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, feeds: Sequence[Feed]) -> list[Fed]:
        """Advance every session by its tokens, all in the same passes, of CHUNK tokens at most.

        A session takes part once. What cannot be done is refused before anything changes.
        """
        self._check(feeds)
        feedings = [_Feeding(feed, self.shape) for feed in feeds]
        while True:
            parts = [feeding.part(count) for feeding, count in _shares(feedings)]
            if not parts:
                return [feeding.fed for feeding in feedings]
            array = (abi.Part * len(parts))(*parts)
            if self._library.run(self._handle, array, len(parts)):
                tokens = sum(part.count for part in parts)
                raise UserError(f"out of memory in a pass over {tokens} tokens; give fewer at a time")
            for feeding in feedings:
                feeding.finish()

    def run_slices(self, addresses: ctypes.Array, nanoseconds: int, sums: int) -> int:
        """The kernels' call behind `cpu.slices.advance`; 0 unless memory ran out."""
        failed: int = self._library.slices(self._handle, addresses, len(addresses), nanoseconds, sums)
        return failed

    def _check(self, feeds: Sequence[Feed]) -> None:
        if len({id(feed.session.state) for feed in feeds}) != len(feeds):
            raise UserError("a session takes part in a pass twice; give its tokens in one feed")
        for feed in feeds:
            position = feed.session.state.position
            if position + len(feed.tokens) > MAX_POSITION:
                raise UserError(
                    f"the session is full: {position} of {MAX_POSITION} positions are used; "
                    "start a new session"
                )
            if len(feed.tokens) == 0:
                continue
            for token in (min(feed.tokens), max(feed.tokens)):
                if not 0 <= token < self.shape.vocab:
                    raise UserError(f"token {token} is outside the vocabulary 0..{self.shape.vocab - 1}")


class _Feeding:
    """A feed on its way through passes."""

    def __init__(self, feed: Feed, shape: ModelShape):
        self.count, self.done, self._now = len(feed.tokens), 0, 0
        self._feed = feed
        self._tokens = (c_int32 * self.count)(*feed.tokens)
        self.fed = Fed(
            np.empty((self.count, shape.layers, len(SITES)), np.int32),
            np.zeros((self.count, shape.layers + 2), np.int32),
        )
        if feed.logits:
            self.fed.logits = np.empty((_wanted(feed), shape.vocab), np.int64)
        self._best: ctypes.Array[c_int32] | tuple[()] = ()

    def part(self, count: int) -> Structure:
        """The next `count` tokens."""
        feed, first = self._feed, self.done
        self._now = count
        want = feed.want
        if want is Want.LAST and first + count < self.count:
            want = Want.NOTHING
        part = abi.Part(*feed.session.pointers)
        part.tokens = ctypes.addressof(self._tokens) + first * ctypes.sizeof(c_int32)
        part.position, part.count, part.want = feed.session.state.position, count, want.value
        active = self.fed.active
        part.active = _address(active) + active.strides[0] * first
        part.optional = _address(self.fed.optional) + self.fed.optional.strides[0] * first
        if want is not Want.NOTHING:
            self._best = (c_int32 * (count if want is Want.ALL else 1))()
            part.best = ctypes.addressof(self._best)
            part.sampler = None if feed.sampler is None else feed.sampler.address
            logits = self.fed.logits
            if logits is not None:
                part.logits = _address(logits) + logits.strides[0] * (first if want is Want.ALL else 0)
        else:
            self._best = ()
        if feed.undo is not None:
            feed.undo.place(part, first)
        return part

    def finish(self) -> None:
        """The pass is over."""
        if self._now:
            self.fed.tokens += self._best
            self._feed.session.state.position += self._now
            self.done += self._now
            self._now = 0


def _shares(feedings: list[_Feeding]) -> list[tuple[_Feeding, int]]:
    """(feeding, tokens) of the next pass: short feeds first, so none waits for a long one."""
    left, shares = CHUNK, []
    for feeding in sorted(feedings, key=lambda feeding: feeding.count - feeding.done):
        count = min(feeding.count - feeding.done, left)
        if count:
            shares.append((feeding, count))
            left -= count
    return shares


def _wanted(feed: Feed) -> int:
    return {Want.NOTHING: 0, Want.LAST: min(1, len(feed.tokens)), Want.ALL: len(feed.tokens)}[feed.want]
