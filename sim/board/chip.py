"""The SDRAM's model by itself: commands at chosen cycles, and the first rule that they break."""

import ctypes
from pathlib import Path

from symlight.hw.board.sdram_ports import SdramCommand

from .build import build_chip

_FUNCTIONS = {
    "sd_create": (ctypes.c_void_p,),
    "sd_destroy": (None, ctypes.c_void_p),
    "sd_edge": (ctypes.c_int, ctypes.c_void_p, ctypes.c_double, *([ctypes.c_int] * 6)),
    "sd_error": (ctypes.c_char_p, ctypes.c_void_p),
}


class Chip:
    """A powered chip with a clock of `mhz`.

    Parameters
    ----------
    mhz : float
    """

    def __init__(self, mhz: float = 100, cache: Path | None = None):
        self._c, self._cycle_ns, self._edges = ctypes.CDLL(str(build_chip(cache))), 1000 / mhz, 0
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._c, name)
            function.restype, function.argtypes = result, arguments
        self._handle = self._c.sd_create()

    def close(self) -> None:
        """Free the model."""
        if self._handle:
            self._c.sd_destroy(self._handle)
            self._handle = None

    def edge(
        self,
        command: SdramCommand | None = None,
        *,
        ba: int = 0,
        a: int = 0,
        dq: int | None = None,
        cke: bool = True,
    ) -> int | None:
        """One edge with a command (None: NOP), and `dq` driven by the other side; what the chip drives."""
        now = self._edges * self._cycle_ns
        self._edges += 1
        driven, value = dq is not None, dq or 0
        code = int(SdramCommand(SdramCommand.NOP if command is None else command).value)
        word = self._c.sd_edge(self._handle, now, cke, code, ba, a, driven, value)
        return None if word < 0 else word

    def wait(self, edges: int) -> None:
        """So many edges without a command."""
        for _ in range(edges):
            self.edge()

    @property
    def error(self) -> str:
        """The first rule that was broken, or ""."""
        return str(self._c.sd_error(self._handle).decode())
