"""The SDRAM controller alone with the chip's model: requests, beats, cycles, violations."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from amaranth.lib.wiring import Component

from symlight.base.errors import UserError
from symlight.hw.board.verilog import component_verilog

from .build import build_library

HARNESS = ("controller.cpp", "sdram.h")
_HANDLE, _LONG = ctypes.c_void_p, ctypes.c_int64
_FUNCTIONS = {
    "sc_create": (_HANDLE, ctypes.c_double),
    "sc_destroy": (None, _HANDLE),
    "sc_run": (
        _LONG,
        _HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_void_p,
        _LONG,
    ),
    "sc_peek": (None, _HANDLE, _LONG, _LONG, ctypes.c_void_p),
    "sc_idle": (None, _HANDLE, _LONG),
    "sc_counter": (_LONG, _HANDLE, ctypes.c_int),
    "sc_error": (ctypes.c_char_p, _HANDLE),
}
COUNTERS = ("reads", "writes", "activates", "refreshes")


class SdramViolation(RuntimeError):
    """The controller broke a rule of the chip, or one of its own assertions."""


@dataclass(frozen=True)
class Request:
    """`beats` beats to read from beat `address` on, or one beat to write (`data`)."""

    address: int
    beats: int = 1
    data: bytes | None = None


class SimulatedController:
    """A verilated `SdramController` on the model of the chip.

    Parameters
    ----------
    controller : Component
        With the ports of `hw.board.sdram.SdramController`.
    beat_bytes : int
    mhz : float
    """

    def __init__(self, controller: Component, *, beat_bytes: int, mhz: float, cache: Path | None = None):
        text = component_verilog(controller, "controller")
        library = build_library("controller", text, HARNESS, cache=cache)
        self._library, self._beat = ctypes.CDLL(str(library)), beat_bytes
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._handle = self._library.sc_create(mhz)

    def close(self) -> None:
        """Free the model."""
        if self._handle:
            self._library.sc_destroy(self._handle)
            self._handle = None

    def run(
        self, requests: list[Request], *, gaps: list[int] | None = None, limit: int = 10_000_000
    ) -> tuple[list[bytes], int]:
        """Do `requests` in order; what the reads returned, and the cycles from first request to last beat."""
        table = np.zeros((len(requests), 4), np.int32)
        beats = [request.beats if request.data is None else 1 for request in requests]
        table[:, 0] = [request.data is not None for request in requests]
        table[:, 1] = [request.address for request in requests]
        table[:, 2] = beats
        table[:, 3] = np.cumsum([0, *beats[:-1]])
        data = np.zeros((sum(beats), self._beat), np.uint8)
        for row, request in zip(table, requests, strict=True):
            if request.data is not None:
                if len(request.data) != self._beat:
                    raise UserError(f"a beat has {self._beat} bytes, not {len(request.data)}")
                data[row[3]] = np.frombuffer(request.data, np.uint8)
        waits = None if gaps is None else np.asarray(gaps, np.int32)
        cycles = self._library.sc_run(
            self._handle,
            len(requests),
            table.ctypes.data,
            data.ctypes.data,
            self._beat,
            None if waits is None else waits.ctypes.data,
            limit,
        )
        self._check()
        read = [data[row[3] : row[3] + row[2]].tobytes() for row in table if not row[0]]
        return read, cycles

    def idle(self, cycles: int) -> None:
        """Let time pass without requests."""
        self._library.sc_idle(self._handle, cycles)
        self._check()

    def memory(self, first: int, size: int) -> bytes:
        """Bytes of the chip."""
        out = np.zeros(size, np.uint8)
        self._library.sc_peek(self._handle, first, size, out.ctypes.data)
        return out.tobytes()

    def counter(self, name: str) -> int:
        """Commands of a kind that the chip has seen."""
        return int(self._library.sc_counter(self._handle, COUNTERS.index(name)))

    def _check(self) -> None:
        error = self._library.sc_error(self._handle).decode()
        if error:
            raise SdramViolation(error)
