"""A V1 package's weights as the kernels read them: one block of memory, laid out when it is loaded."""

import ctypes
import mmap
from ctypes import Structure

import numpy as np
from numpy.typing import DTypeLike

from symlight.model.v1 import ops
from symlight.model.v1 import tensors as names
from symlight.model.v1.config import MEMBRANE_BOUND, NORM_EPSILON
from symlight.model.v1.package import V1Package

from . import abi

ROW_UNIT, COLUMN_UNIT, LANES = 64, 64, 16  # of kRowUnit, kColumnUnit and kLanes a multiple
_HUGE = 1 << 21  # bytes of a huge page: large reads then miss the TLB rarely
_LINE = 64


def _padded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


class _Arena:
    """Memory that is handed out from end to end, in lines, on huge pages where the system has them."""

    def __init__(self, size: int):
        self._map = mmap.mmap(-1, _padded(size, _HUGE) + _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._first = self._next = -self._bytes.ctypes.data % _HUGE

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """An array of zeros."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        start, self._next = self._next, self._next + _padded(size, _LINE)
        array: np.ndarray = self._bytes[start : start + size].view(dtype).reshape(shape)
        return array

    def used(self) -> np.ndarray:
        """The bytes that were handed out."""
        return self._bytes[self._first : self._next]


class Packed:
    """`model` is what the kernels take; this object keeps the memory behind it."""

    def __init__(self, package: V1Package, library: ctypes.CDLL, *, by_row: bool = False):
        self._package, self._library, self._by_row = package, library, by_row
        self._kept: list[np.ndarray] = []
        shape = package.shape
        self._arena = _Arena(self._size())
        self._blocks = (abi.Block * shape.layers)(*(self._block(layer) for layer in range(shape.layers)))
        self.model = abi.Model(
            head=self._rows(names.HEAD),
            prior_in=self._rows(names.PRIOR_IN),
            prior_out=self._rows(names.PRIOR_OUT),
            encoder_norm=self._norm(names.ENCODER_NORM),
            blocks=ctypes.addressof(self._blocks),
            **{name: getattr(shape, name) for name in ("layers", "width", "heads", "head_width", "ffn")},
            **{name: getattr(shape, name) for name in ("vocab", "bottleneck", "window", "anchors")},
            leak=shape.leak,
            threshold=shape.threshold,
            bound=MEMBRANE_BOUND,
            epsilon=NORM_EPSILON,
            scale=shape.head_width**-0.5,
            prior_weight=float(self._read(names.PRIOR_WEIGHT)[0]),
        )

    @property
    def memory(self) -> np.ndarray:
        """The bytes of all packed matrices."""
        return self._arena.used()

    def _size(self) -> int:
        """Bytes of all packed matrices, from above."""
        item = 1 if self._package.meta.weights == "int8" else 4
        total = 0
        for outputs, inputs in names.matrices(self._package.shape).values():
            by_output = _padded(outputs, ROW_UNIT) * _padded(inputs, LANES) * item
            by_input = inputs * _padded(outputs * item, 4 * COLUMN_UNIT)
            total += max(by_output, by_input) + _LINE
        return total

    def _block(self, layer: int) -> Structure:
        def name(part: str) -> str:
            return names.block(layer, part)

        alpha = self._keep(ops.sigmoid(self._read(name(names.DECAY))))
        conditioned = self._rows if self._by_row else self._columns
        return abi.Block(
            tcam=conditioned(name(names.TCAM)),
            qkv=self._rows(*map(name, (names.QUERY, names.KEY, names.VALUE))),
            out=self._rows(name(names.OUT)),
            up=self._rows(name(names.UP)),
            down=conditioned(name(names.DOWN)),
            tcam_norm=self._norm(name(names.TCAM_NORM)),
            ffn_norm=self._norm(name(names.FFN_NORM)),
            alpha=alpha.ctypes.data,
            gate=float(ops.sigmoid(self._read(name(names.GATE)))[0]),
        )

    def _rows(self, *parts: str) -> Structure:
        """One or more matrices under each other, stored by output."""
        loaded = [self._package.matrix(part) for part in parts]
        scales = None if loaded[0][1] is None else np.concatenate([scale for _, scale in loaded])
        weight = loaded[0][0] if len(loaded) == 1 else np.concatenate([weight for weight, _ in loaded])
        outputs, inputs = weight.shape
        rows = _padded(outputs, ROW_UNIT)
        if weight.dtype == np.float32:
            packed = self._arena.take((rows, _padded(inputs, LANES)), np.float32)
            packed[:outputs, :inputs] = weight
        else:
            packed = self._arena.take((rows, _padded(inputs, 4)), np.uint8)
            self._library.symlight_v1_blocks(weight.ctypes.data, packed.ctypes.data, outputs, inputs)
        return self._matrix(packed, scales, inputs, outputs, by_input=0)

    def _columns(self, name: str) -> Structure:
        """A matrix stored by input."""
        weight, scale = self._package.matrix(name)
        outputs, inputs = weight.shape
        packed = self._arena.take((inputs, _padded(outputs, COLUMN_UNIT)), weight.dtype)
        single = int(weight.dtype == np.float32)
        self._library.symlight_v1_transpose(
            weight.ctypes.data, packed.ctypes.data, outputs, inputs, packed.shape[1], single
        )
        return self._matrix(packed, scale, inputs, outputs, by_input=1)

    def _matrix(
        self, packed: np.ndarray, scale: np.ndarray | None, inputs: int, outputs: int, by_input: int
    ) -> Structure:
        return abi.Matrix(
            data=packed.ctypes.data,
            scale=None if scale is None else self._keep(scale).ctypes.data,
            stride=packed.strides[0],
            inputs=inputs,
            outputs=outputs,
            single=int(packed.dtype == np.float32),
            by_input=by_input,
        )

    def _norm(self, name: str) -> Structure:
        def vector(part: str) -> int:
            values = self._read(f"{name}.{part}")
            return self._keep(np.pad(values, (0, -len(values) % LANES))).ctypes.data

        return abi.Norm(gamma=vector("weight"), beta=vector("bias"))

    def _read(self, name: str) -> np.ndarray:
        return self._package.weights.read(name)

    def _keep(self, array: np.ndarray) -> np.ndarray:
        array = np.ascontiguousarray(array, np.float32)
        self._kept.append(array)
        return array
