"""The built simulator as a Python object: memories, registers, cycles. One instance is one card with its
kernel."""

import ctypes
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import NoReturn

import numpy as np

from symlight.base.errors import UserError

LOST = 255  # `inject`: an answer that never comes


ALL_LEVELS = 99  # of modules in a trace


class SimulationError(RuntimeError):
    """The design broke a rule: an assertion failed, or a bus protocol was violated. The model is of no use
    afterwards."""


class Stop(IntEnum):
    """Why `Model.run` came back."""

    LIMIT = 0
    INTERRUPT = 1
    STOPPED = 2


_HANDLE, _TEXT = ctypes.c_void_p, ctypes.c_char_p
_INT, _LONG, _U32, _U64 = ctypes.c_int, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64
_FUNCTIONS = {  # result, then arguments; see harness.h
    "sl_create": (_HANDLE, _INT, _U64, _INT, _TEXT),
    "sl_destroy": (None, _HANDLE),
    "sl_trace": (_INT, _HANDLE, _TEXT, _INT),
    "sl_trace_end": (None, _HANDLE),
    "sl_reset": (None, _HANDLE),
    "sl_attach": (None, _HANDLE, _INT, _U64, _U64, _HANDLE),
    "sl_detach": (None, _HANDLE, _INT, _U64),
    "sl_inject": (None, _HANDLE, _INT, _U64, _U64, _INT, _INT),
    "sl_clear_faults": (None, _HANDLE),
    "sl_read": (_LONG, _HANDLE, _U32),
    "sl_write": (_INT, _HANDLE, _U32, _U32),
    "sl_run": (_INT, _HANDLE, _LONG, _INT),
    "sl_stop": (None, _HANDLE),
    "sl_cycles": (_LONG, _HANDLE),
    "sl_counter": (_LONG, _HANDLE, _INT, _TEXT),
    "sl_error": (_TEXT, _HANDLE),
}


class Model:
    """A simulated kernel and its memory ports. Time advances only in `run`, `read` and `write`.

    Parameters
    ----------
    library : Path
        What `build.build_model` returned.
    channels : int
        Memory ports of the kernel.
    clock_mhz : int
        Kernel clock; memory timing is in nanoseconds.
    seed : int
        Refresh phases and random back-pressure; the same seed gives the same cycles.
    threads : int
        That simulate a cycle together; the cycles are the same with any number.
    settings : mapping of str to int
        Parameters of the memory model by name (hbm.h).
    """

    def __init__(
        self,
        library: Path,
        *,
        channels: int,
        clock_mhz: int,
        seed: int = 1,
        threads: int = 1,
        settings: Mapping[str, int] | None = None,
    ):
        self._library = ctypes.CDLL(str(library))
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        text = ",".join(f"{name}={value:d}" for name, value in (settings or {}).items())
        self._handle = self._library.sl_create(clock_mhz, seed, threads, text.encode())
        if not self._handle:
            raise UserError(f"memory model: a name in {text!r} is unknown; hbm.h lists them")
        self.channels = channels
        self.clock_mhz = clock_mhz
        self._attached: dict[tuple[int, int], np.ndarray] = {}

    def close(self) -> None:
        """Free the model; no other method may follow."""
        if self._handle:
            self._library.sl_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def trace(self, path: Path, levels: int = ALL_LEVELS) -> None:
        """Write a waveform file from now on: `levels` of modules from the kernel down, or all.

        Time 2 c holds the settled signals of cycle c, 2 c + 1 those after its clock edge. Needs a model built
        with `trace`; once per model.
        """
        if self._library.sl_trace(self._handle, str(path).encode(), levels):
            raise UserError("this simulator was built without trace")

    def end_trace(self) -> None:
        """Complete the file of `trace`."""
        self._library.sl_trace_end(self._handle)

    def reset(self) -> None:
        """Reset kernel, memory timing and counters; memories stay."""
        self._library.sl_reset(self._handle)

    def attach(self, channel: int, base: int, memory: np.ndarray) -> None:
        """Map the bytes of `memory` at `base` of `channel`; both sides see what the other writes."""
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise ValueError("memory must be a contiguous vector of uint8")
        if not 0 <= channel < self.channels:
            raise ValueError(f"channel {channel} is outside 0..{self.channels - 1}")
        self._attached[channel, base] = memory
        self._library.sl_attach(self._handle, channel, base, memory.size, memory.ctypes.data)

    def detach(self, channel: int, base: int) -> None:
        """Undo `attach`."""
        if self._handle:
            self._library.sl_detach(self._handle, channel, base)
        del self._attached[channel, base]

    def inject(
        self, channel: int, base: int, size: int, response: int, *, reads: bool = True, writes: bool = True
    ) -> None:
        """Let beats of `channel` that touch `size` bytes from `base` answer `response` (2: SLVERR, 3: DECERR,
        `LOST`: never)."""
        self._library.sl_inject(self._handle, channel, base, size, response, reads + 2 * writes)

    def clear_faults(self) -> None:
        """Undo all `inject`."""
        self._library.sl_clear_faults(self._handle)

    def read(self, offset: int) -> int:
        """Read a control register."""
        value: int = self._library.sl_read(self._handle, offset)
        if value < 0:
            self._fail()
        return value

    def write(self, offset: int, value: int) -> None:
        """Write a control register."""
        if self._library.sl_write(self._handle, offset, value & 0xFFFFFFFF):
            self._fail()

    def run(self, cycles: int, *, until_interrupt: bool = True) -> Stop:
        """Run at most `cycles` cycles."""
        reason = self._library.sl_run(self._handle, cycles, until_interrupt)
        if reason < 0:
            self._fail()
        return Stop(reason)

    def stop(self) -> None:
        """Let `run`, in another thread, come back within some thousand cycles."""
        self._library.sl_stop(self._handle)

    @property
    def cycles(self) -> int:
        """Cycles since the model was made."""
        count: int = self._library.sl_cycles(self._handle)
        return count

    def counter(self, name: str, channel: int) -> int:
        """A counter of a memory port (names in axi_slave.h), since the last reset."""
        value: int = self._library.sl_counter(self._handle, channel, name.encode())
        if value < 0:
            raise ValueError(f"no counter is called {name!r}")
        return value

    def total(self, name: str) -> int:
        """A counter, summed over all memory ports."""
        return sum(self.counter(name, channel) for channel in range(self.channels))

    def _fail(self) -> NoReturn:
        raise SimulationError(
            self._library.sl_error(self._handle).decode() or "a register access was refused"
        )
