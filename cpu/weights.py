"""Packed weights in memory, and the structures with which the kernels find them."""

import ctypes
import mmap
from ctypes import Structure

import numpy as np

from symlight.model import ops
from symlight.model.config import ModelShape, Numerics
from symlight.model.weights import IntegerModel

from . import abi
from .layout import BY_ROW, buffer_bytes, fill, matrix_sizes, row_stride, rows_of, sections

HUGE_PAGE = 2 << 20


def huge_buffer(size: int) -> np.ndarray:
    """Zeroed memory [size] uint8, aligned to huge pages and made of them where the system has them."""
    # private: huge pages of shared memory are another setting, and mostly off
    memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # a kernel without huge pages
    whole = np.frombuffer(memory, np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE
    return whole[start : start + size]


class Weights:
    """The weights of a model, packed.

    Members
    -------
    shape : ModelShape
    numerics : Numerics
    buffer : ndarray, uint8
        As cpu.layout says, whole or without the embedding table.
    by_row : frozenset of str
        Matrices that are stored by row.
    table : ndarray, uint8
        The embedding table when `buffer` does not hold it.
    """

    def __init__(
        self,
        shape: ModelShape,
        numerics: Numerics,
        buffer: np.ndarray,
        by_row: frozenset[str] = BY_ROW,
        table: np.ndarray | None = None,
    ):
        self.shape, self.numerics, self.buffer, self.by_row = shape, numerics, buffer, by_row
        self._places = sections(shape, by_row)
        self._table = self._places["embedding"].of(buffer) if table is None else table
        self._blocks: ctypes.Array | None = None

    @classmethod
    def pack(cls, model: IntegerModel, by_row: frozenset[str] | None = None) -> "Weights":
        """Packed out of a model, in memory of its own; by row what its event sites feed, unless given."""
        by_row = rows_of(model.event_sites) if by_row is None else by_row
        buffer = huge_buffer(buffer_bytes(model.shape, by_row))
        fill(buffer, model, by_row)
        return cls(model.shape, model.numerics, buffer, by_row)

    @property
    def matrix_bytes(self) -> int:
        """Bytes from the first matrix to the end of the last: what a pass reads when it reads every row."""
        return self._places["fused"].offset + self._places["fused"].bytes

    def structure(self, every_row: bool = False) -> Structure:
        """What the kernels take; valid as long as this object lives."""
        shape, numerics = self.shape, self.numerics
        blocks = (abi.Block * shape.layers)(*(self._block(layer) for layer in range(shape.layers)))
        model = abi.Model(
            head=self._head(),
            blocks=ctypes.addressof(blocks),
            inv_width=ops.inv_width(shape.width),
            slots=shape.slots,
            every_row=every_row,
            embedding=self._table.ctypes.data,
            **{name: self._address(name) for name in ("slopes", "rsqrt")},
            **shape.to_json(),
            **numerics.to_json(),
        )
        model._blocks_ = blocks  # lives as long as the structure
        return model

    def _array(self, name: str) -> np.ndarray:
        return self._places[name].of(self.buffer)

    def _address(self, name: str) -> int:
        return self.buffer.ctypes.data + self._places[name].offset

    def _matrix(self, name: str) -> Structure:
        kind = name.rpartition(".")[2]
        inputs, outputs = matrix_sizes(self.shape)[kind]
        stride = row_stride(outputs) if kind in self.by_row else 0
        return abi.Matrix(self._address(name), stride, inputs, outputs, kind in self.by_row)

    def _block(self, layer: int) -> Structure:
        here = f"{layer}."
        values: dict = {name: self._matrix(here + name) for name in ("qkv", "decay", "out", "up", "down")}
        for name, *_ in abi.Block._fields_:
            section = self._places.get(here + name)
            if section is not None and len(section.dims) == 1:
                values[name] = self._address(here + name)
        for name in ("attention_norm", "ffn_norm"):
            gamma, beta = (self._address(f"{here}{name}.{leaf}") for leaf in ("gamma", "beta"))
            values[name] = abi.Norm(gamma, beta, *map(int, self._array(f"{here}{name}.scalars")))
        for name in ("attention_event", "ffn_event"):
            scale, threshold = (self._array(f"{here}{name}_{leaf}")[0] for leaf in ("scale", "threshold"))
            values[name] = abi.Requantiser(scale, threshold)
        values["mix_o"], values["mix_h"] = self._array(here + "mix_scale")
        values["mix_threshold"] = self._array(here + "mix_threshold")[0]
        return abi.Block(**values)

    def _head(self) -> Structure:
        names = ("prior_scale", "fused_scale", "gelu_table")
        return abi.Head(
            prior=self._matrix("prior"),
            fused=self._matrix("fused"),
            input=abi.Requantiser(self._array("head_input_scale")[0], self._array("head_threshold")[0]),
            **{name: self._address(name) for name in names},
        )
