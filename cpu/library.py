"""The compiled kernels, as functions."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import abi
from .build import FINITE, Progress, build_library
from .isa import Isa

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_FUNCTIONS = {
    "engine": (_POINTER, [_POINTER, _INT]),
    "free": (None, [_POINTER]),
    "run": (_INT, [_POINTER, _POINTER, _INT]),
    "slices": (_INT, [_POINTER, _POINTER, _INT, _LONG, _POINTER]),
    "draw": (ctypes.c_int32, [_POINTER, _POINTER, _INT, _LONG]),
    "profile": (ctypes.POINTER(abi.Profile), [_POINTER]),
    "read": (_LONG, [_POINTER, _POINTER, _LONG]),
    "copy": (ctypes.c_uint64, [_POINTER, _POINTER, _LONG, _INT]),
}


class Library:
    """The kernels for one instruction set; compiled when the cache does not have them.

    Attributes `engine`, `free`, .. are the functions of kernels/engine.cpp. `key` changes with everything
    that the kernels are made of.
    """

    def __init__(self, isa: Isa, cache: Path | None = None, progress: Progress | None = None):
        file = build_library(isa, cache, flags=FINITE, progress=progress)
        self.isa, self.key = isa, file.parent.name
        self._handle = ctypes.CDLL(str(file))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._handle, f"symlight_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...  # of _FUNCTIONS

    def checksum(self, data: np.ndarray, copy: np.ndarray | None = None, threads: int = 1) -> str:
        """16 hex digits of uint8 data; the data also goes to `copy` when that is given, in the same reading.

        Any change of a single 32-bit word changes it.
        """
        assert (
            data.dtype == np.uint8 and data.flags.c_contiguous and (copy is None or copy.shape == data.shape)
        )
        target = None if copy is None else copy.ctypes.data
        return f"{self.copy(data.ctypes.data, target, data.nbytes, threads):016x}"
