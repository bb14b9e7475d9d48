"""A simulated board: the design that is synthesised, with the SDRAM's model and a serial line of bytes."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from symlight.base.tools import Progress
from symlight.hw.board.board import Board
from symlight.hw.board.generate import BOARD_MODULE, generate_board
from symlight.hw.config import Engine

from ..model import SimulationError
from .build import build_library

HARNESS = ("board.cpp", "sdram.h")
LINE_DIVISOR = 4  # kernel cycles of a bit: a faster line than a board has
GAP = 200_000  # kernel cycles of silence after which half a request is given up
RESET_CYCLES = 100  # kernel cycles after which both domains have left their reset
COUNTERS = ("reads", "writes", "activates", "refreshes")
_HANDLE, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_FUNCTIONS = {  # result, then arguments; see board.cpp
    "sb_create": (_HANDLE, ctypes.c_double, ctypes.c_double, _INT, ctypes.c_uint64),
    "sb_destroy": (None, _HANDLE),
    "sb_send": (None, _HANDLE, ctypes.c_char_p, _INT),
    "sb_receive": (_INT, _HANDLE, ctypes.c_char_p, _INT),
    "sb_run": (_INT, _HANDLE, _LONG, _INT),
    "sb_cycles": (_LONG, _HANDLE),
    "sb_lights": (_INT, _HANDLE),
    "sb_memory": (ctypes.POINTER(ctypes.c_uint8), _HANDLE),
    "sb_counter": (_LONG, _HANDLE, _INT),
    "sb_error": (ctypes.c_char_p, _HANDLE),
}


@dataclass(frozen=True)
class BoardLibrary:
    """A compiled board."""

    path: Path
    board: Board
    engine: Engine
    build_id: int


def build_board(
    board: Board,
    *,
    cache: Path | None = None,
    assertions: bool = True,
    optimise: str = "-O3",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> BoardLibrary:
    """Generate, verilate and compile `board`; kept in the cache by content."""
    text, build_id = generate_board(board, line_divisor=LINE_DIVISOR, gap=GAP)
    path = build_library(
        BOARD_MODULE,
        text,
        HARNESS,
        cache=cache,
        assertions=assertions,
        optimise=optimise,
        jobs=jobs,
        progress=progress,
    )
    return BoardLibrary(path, board, board.engine, build_id)


class SimulatedBoard:
    """One powered board. Time advances only in `run`.

    Parameters
    ----------
    library : BoardLibrary
    seed : int
        Of what memories and registers hold at first.
    """

    def __init__(self, library: BoardLibrary, *, seed: int = 1):
        self.library = library
        self._c = ctypes.CDLL(str(library.path))
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._c, name)
            function.restype, function.argtypes = result, arguments
        board = library.board
        self._handle = self._c.sb_create(board.kernel_hz / 1e6, board.sdram_mhz, LINE_DIVISOR, seed)
        size = board.chip.size
        self.memory = np.ctypeslib.as_array(self._c.sb_memory(self._handle), (size,))  # bytes of the SDRAM
        self.run(RESET_CYCLES)  # what comes in reset is lost, as while an FPGA loads its bitstream

    def close(self) -> None:
        """Free the model; `memory` is gone with it."""
        if self._handle:
            self.memory = np.zeros(0, np.uint8)
            self._c.sb_destroy(self._handle)
            self._handle = None

    def send(self, data: bytes) -> None:
        """Put bytes onto the line, behind those that have not left yet."""
        self._c.sb_send(self._handle, data, len(data))

    def receive(self, room: int = 1 << 16) -> bytes:
        """Bytes that the board has sent."""
        buffer = ctypes.create_string_buffer(room)
        count = self._c.sb_receive(self._handle, buffer, room)
        return buffer.raw[:count]

    def run(self, cycles: int, *, wanted: int = 0) -> None:
        """At most so many kernel cycles; with `wanted`, until so many bytes have come."""
        if self._c.sb_run(self._handle, cycles, wanted):
            raise SimulationError(self._c.sb_error(self._handle).decode())

    @property
    def cycles(self) -> int:
        """Kernel cycles so far."""
        return int(self._c.sb_cycles(self._handle))

    @property
    def lights(self) -> int:
        """Lights, a bit each (hw.board.core)."""
        return int(self._c.sb_lights(self._handle))

    def counter(self, name: str) -> int:
        """Commands of a kind that the SDRAM has seen."""
        return int(self._c.sb_counter(self._handle, COUNTERS.index(name)))
