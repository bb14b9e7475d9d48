"""The V1 engine: passes over chunks of a session, with a key-value cache of fixed size (docs/v1.md).

engine = EngineV1(load_v1(path), threads=2)
session = engine.session()
logits = engine.run(session, [1, 5, 7], wanted=1)      # of the last position
"""

import ctypes
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import Structure
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.cpu.build import Progress, build_library
from symlight.cpu.isa import Isa, find
from symlight.model.v1 import ops
from symlight.model.v1 import tensors as names
from symlight.model.v1.config import MAX_POSITION, V1Shape
from symlight.model.v1.package import V1Package

from . import abi
from .weights import Packed

CHUNK = 64  # positions of a pass at most
PAGE = 4096  # bytes: `symlight_v1_read` takes multiples of a line
SOURCE = Path(__file__).parent / "kernels" / "engine_v1.cpp"


def build_v1(isa: Isa, cache: Path | None = None, progress: Progress | None = None) -> ctypes.CDLL:
    """The library of the V1 kernels for `isa`; compiled unless the cache has it."""
    file = build_library(isa, cache, source=SOURCE, headers={"v1_abi.h": abi.V1.header()}, progress=progress)
    library = ctypes.CDLL(str(file))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in (
        ("engine", pointer, (pointer, ctypes.c_int, ctypes.c_int)),
        ("free", None, (pointer,)),
        ("run", ctypes.c_int, (pointer, pointer, pointer)),
        ("transpose", None, (pointer, pointer, number, number, number, ctypes.c_int)),
        ("blocks", None, (pointer, pointer, number, number)),
        ("read", number, (pointer, number)),
    ):
        function = getattr(library, f"symlight_v1_{name}")
        function.restype, function.argtypes = result, arguments
    return library


@dataclass(frozen=True)
class SessionV1:
    """Everything that a session remembers. `arrays` are the fields of `abi.Session`."""

    arrays: dict[str, np.ndarray]
    record: Structure

    @classmethod
    def new(cls, shape: V1Shape) -> "SessionV1":
        slots = -(-shape.slots // 16) * 16  # whole vectors
        per_head = (shape.layers, shape.heads, shape.head_width * slots)
        arrays: dict[str, np.ndarray] = {
            "membrane": np.zeros(shape.width, np.float32),
            "decay": np.zeros((shape.layers, shape.width), np.float32),
            "keys": np.zeros(per_head, np.float32),  # pages that are never written take no memory
            "values": np.zeros(per_head, np.float32),
            "spikes": np.zeros((shape.layers, slots), np.uint8),
        }
        return cls(arrays, _record(arrays, slots, 0))

    @property
    def position(self) -> int:
        position: int = self.record.position
        return position

    def copy(self) -> "SessionV1":
        """An independent session that stands where this one does."""
        arrays = {name: array.copy() for name, array in self.arrays.items()}
        return SessionV1(arrays, _record(arrays, self.record.slots, self.position))

    def reset(self) -> None:
        """Start again. Keys and values need not be cleared: slots without a spike are never read."""
        for name in ("membrane", "decay", "spikes"):
            self.arrays[name].fill(0)
        self.record.position = 0


def _record(arrays: dict[str, np.ndarray], slots: int, position: int) -> Structure:
    pointers = {name: array.ctypes.data for name, array in arrays.items()}
    return abi.Session(**pointers, slots=slots, position=position)


class EngineV1:
    """A V1 package, ready to run.

    Parameters
    ----------
    package : V1Package
    threads : int
    isa : str | None
        Instruction set; default: the best of this machine.
    by_row : bool
        Store every matrix by output and read all of it, spikes or not (to measure what the layout brings).

    Attributes
    ----------
    active : int64 [layers, 2]
        Spikes into the TCAM and the feed-forward down matrices, added up over `positions`.
    nanoseconds : int64 [phases]
        Time of thread 0 by `abi.PHASES`, added up.
    """

    def __init__(
        self,
        package: V1Package,
        threads: int = 1,
        *,
        isa: str | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
        by_row: bool = False,
    ):
        self.shape, self.package = package.shape, package
        self.isa = find(isa)
        self._library = build_v1(self.isa, cache, progress)
        self._packed = Packed(package, self._library, by_row=by_row)
        self._inv_freq = package.weights.read(names.INV_FREQ)
        self.threads, self._handle = threads, None
        self._handle = self._library.symlight_v1_engine(ctypes.byref(self._packed.model), threads, CHUNK)
        if not self._handle:
            raise UserError(f"there is not enough memory for the CPU engine of {package.path}")
        self.clear()

    def clear(self) -> None:
        """Start counting again."""
        self.positions = 0
        self.active = np.zeros((self.shape.layers, 2), np.int64)
        self.nanoseconds = np.zeros(len(abi.PHASES), np.int64)

    def session(self) -> SessionV1:
        """A session with nothing in it."""
        return SessionV1.new(self.shape)

    def run(
        self,
        session: SessionV1,
        tokens: Sequence[int] | np.ndarray,
        *,
        wanted: int = 0,
        rows: int | None = None,
    ) -> np.ndarray:
        """Logits [wanted, rows] of the last `wanted` positions; `rows` of the vocabulary, default all.

        The session goes on by `tokens`. A token outside the vocabulary, or a session that is too long, is a
        `UserError` before anything changes.
        """
        found = self._checked(tokens, session.position)
        rows = self.shape.vocab if rows is None else rows
        first = len(found) - wanted
        logits = np.empty((wanted, rows), np.float32)
        for start in range(0, len(found), CHUNK):
            part = found[start : start + CHUNK]
            skipped = min(max(first - start, 0), len(part))
            self._pass(session, part, skipped, logits[max(start - first, 0) :], rows)
        return logits

    def _pass(
        self, session: SessionV1, tokens: np.ndarray, first: int, logits: np.ndarray, rows: int
    ) -> None:
        embedding = self.package.weights.rows(names.EMBEDDING, tokens)
        angles = ops.angles(session.position + np.arange(len(tokens)), self._inv_freq)
        cosine, sine = (np.ascontiguousarray(f(angles), np.float32) for f in (np.cos, np.sin))
        chunk = abi.Chunk(
            embedding=embedding.ctypes.data,
            cosine=cosine.ctypes.data,
            sine=sine.ctypes.data,
            logits=logits.ctypes.data,
            active=self.active.ctypes.data,
            nanoseconds=self.nanoseconds.ctypes.data,
            count=len(tokens),
            first=first,
            rows=rows,
        )
        if self._library.symlight_v1_run(self._handle, ctypes.byref(session.record), ctypes.byref(chunk)):
            raise UserError("the CPU engine ran out of memory; end other programs and start again")
        self.positions += len(tokens)

    def read_bandwidth(self) -> float:
        """Bytes a second of reading the packed weights once with all threads: what decoding is bound by."""
        weights = self._packed.memory
        size = len(weights) // self.threads // PAGE * PAGE
        clock = (
            time.thread_time if self.threads == 1 else time.perf_counter
        )  # see bench_cpu.worker.seconds_of

        def read(part: int) -> None:
            self._library.symlight_v1_read(weights.ctypes.data + part * size, size)

        with ThreadPoolExecutor(self.threads) as others:
            began = clock()
            if self.threads == 1:
                read(0)
            else:
                list(others.map(read, range(self.threads)))
            return size * self.threads / (clock() - began)

    def _checked(self, tokens: Sequence[int] | np.ndarray, position: int) -> np.ndarray:
        found = np.asarray(tokens, np.int64)
        if found.ndim != 1 or not len(found):
            raise UserError("there are no tokens to run; give at least one")
        bad = found[(found < 0) | (found >= self.shape.vocab)]
        if len(bad):
            raise UserError(
                f"token {bad[0]} is outside the vocabulary 0..{self.shape.vocab - 1} of the model"
            )
        if position + len(found) > MAX_POSITION:
            raise UserError(f"a session has {MAX_POSITION} positions; start a new session")
        return found

    def close(self) -> None:
        """End the threads and give the memory back."""
        if self._handle:
            self._library.symlight_v1_free(self._handle)
            self._handle = None

    def __enter__(self) -> "EngineV1":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()
