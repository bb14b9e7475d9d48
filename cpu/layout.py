"""How weights are stored: one buffer of sections, whose offsets follow from the shape of the model alone.

By row (inputs whose zeros are skipped): each input has a row with one byte per output, padded to strips of
64. Byte l * 16 + q * 4 + t of a strip belongs to its output q * 16 + l * 4 + t: interleaving four rows in
lanes of 16 bytes then gives 16 outputs in order.
By output (dense inputs): blocks of 16 outputs; each group of four inputs has 64 bytes, four per output.
In both layouts a byte holds weight + 128, and padding holds 128: a weight of zero.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from symlight.model import ops
from symlight.model.config import ModelShape
from symlight.model.weights import EventProjection, IntegerModel, Projection

STRIP = 64  # outputs that the kernels work on together
PAGE = 4096  # matrices begin at pages
LINE = 64
BY_ROW = frozenset({"qkv", "decay", "up", "down"})
FED_BY = {"out": {"out"}, "head": {"prior", "fused"}}  # matrices by the optional event site in front of them
MATRICES = ("qkv", "decay", "out", "up", "down", "prior", "fused")


@dataclass(frozen=True)
class Section:
    """A named array of the buffer."""

    name: str
    offset: int
    dtype: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return int(np.prod(self.dims)) * np.dtype(self.dtype).itemsize

    def of(self, buffer: np.ndarray) -> np.ndarray:
        """The array in `buffer` (uint8)."""
        return buffer[self.offset : self.offset + self.bytes].view(self.dtype).reshape(self.dims)


def rows_of(sites: Collection[str]) -> frozenset[str]:
    """The matrices that are stored by row in a model with these optional event sites."""
    return BY_ROW.union(*(FED_BY[site] for site in sites))


def padded(outputs: int) -> int:
    """Outputs in whole strips."""
    return -(-outputs // STRIP) * STRIP


def row_stride(outputs: int) -> int:
    """Bytes from row to row; a multiple of 1 KB would put the lines of a strip into few sets of a cache."""
    return padded(outputs) + (LINE if padded(outputs) % 1024 == 0 else 0)


def matrix_dims(inputs: int, outputs: int, by_row: bool) -> tuple[int, ...]:
    """Bytes of a packed matrix, as dimensions."""
    if by_row:
        return inputs, row_stride(outputs)
    return padded(outputs) // 16, -(-inputs // 4), 64


def pack_rows(weight: np.ndarray) -> np.ndarray:
    """Weights [out, in] int8 by row: [in, stride] uint8."""
    outputs, inputs = weight.shape
    packed = np.full(matrix_dims(inputs, outputs, True), 128, np.uint8)
    strips = np.full((inputs, padded(outputs)), 128, np.uint8)
    strips[:, :outputs] = weight.T.view(np.uint8) ^ 0x80
    strips = strips.reshape(inputs, -1, 4, 4, 4).transpose(0, 1, 3, 2, 4)  # [.., q, l, t] -> [.., l, q, t]
    packed[:, : padded(outputs)] = strips.reshape(inputs, -1)
    return packed


def pack_outputs(weight: np.ndarray) -> np.ndarray:
    """Weights [out, in] int8 by output: [out / 16, in / 4, 64] uint8."""
    outputs, inputs = weight.shape
    blocks, groups, _ = matrix_dims(inputs, outputs, False)
    full = np.full((blocks * 16, groups * 4), 128, np.uint8)
    full[:outputs, :inputs] = weight.view(np.uint8) ^ 0x80
    return full.reshape(blocks, 16, groups, 4).transpose(0, 2, 1, 3).reshape(blocks, groups, 64)


def matrix_sizes(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """(inputs, outputs) of each matrix."""
    return {
        "qkv": (shape.width, 3 * shape.width),
        "decay": (shape.width, shape.width),
        "out": (shape.width, shape.width),
        "up": (shape.width, shape.ffn),
        "down": (shape.ffn, shape.width),
        "prior": (shape.width, shape.bottleneck),
        "fused": (shape.head_rows, shape.vocab),
    }


def sections(shape: ModelShape, by_row: frozenset[str] = BY_ROW) -> dict[str, Section]:
    """Every section by name; `N.` in front of a block's."""
    result: dict[str, Section] = {}
    end = 0

    def add(name: str, dtype: str, dims: tuple[int, ...], align: int = LINE) -> None:
        nonlocal end
        offset = -(-end // align) * align
        result[name] = Section(name, offset, dtype, dims)
        end = offset + result[name].bytes

    sizes = matrix_sizes(shape)
    matrices = {name: matrix_dims(*sizes[name], name in by_row) for name in MATRICES}
    for layer in range(shape.layers):
        for name in ("qkv", "decay", "out", "up", "down"):
            add(f"{layer}.{name}", "uint8", matrices[name], PAGE)
    for name in ("prior", "fused"):
        add(name, "uint8", matrices[name], PAGE)
    for layer in range(shape.layers):
        for name, dims in _block_vectors(shape).items():
            add(f"{layer}.{name}", _vector_type(name), dims)
    for name, dims in _model_vectors(shape).items():
        add(name, _vector_type(name), dims)
    add("gelu_table", "int8", (256,))
    add("embedding", "int16", (shape.vocab, shape.width), PAGE)  # the last: a pass reads one row of it
    return result


def _block_vectors(shape: ModelShape) -> dict[str, tuple[int]]:
    width, qkv = (shape.width,), (3 * shape.width,)
    return {
        "qkv_threshold": qkv,
        "qkv_scale": qkv,
        "decay_scale": width,
        "decay_beta": (shape.heads,),
        "out_scale": width,
        "up_threshold": (shape.ffn,),
        "down_scale": width,
        "spike_threshold": width,
        "attention_norm.gamma": width,
        "attention_norm.beta": width,
        "attention_norm.scalars": (2,),
        "ffn_norm.gamma": width,
        "ffn_norm.beta": width,
        "ffn_norm.scalars": (2,),
        "attention_event_threshold": (1,),
        "attention_event_scale": (1,),
        "ffn_event_threshold": (1,),
        "ffn_event_scale": (1,),
        "mix_scale": (2,),
        "mix_threshold": (1,),
    }


def _model_vectors(shape: ModelShape) -> dict[str, tuple[int]]:
    return {
        "slopes": (shape.heads,),
        "rsqrt": (256,),
        "prior_scale": (shape.bottleneck,),
        "fused_scale": (shape.vocab,),
        "head_input_scale": (1,),
        "head_threshold": (1,),
    }


_NORMS = ("attention_norm", "ffn_norm")
_INT16 = {"spike_threshold", *(f"{norm}.{leaf}" for norm in _NORMS for leaf in ("gamma", "beta"))}


def _vector_type(name: str) -> str:
    if name == "decay_beta":
        return "float64"
    if name == "fused_scale":
        return "uint16"
    if name.endswith("_scale"):
        return "float32"  # 15 bits of mantissa: exact
    return "int16" if name in _INT16 else "int32"


def scale(multiplier: ArrayLike, shift: ArrayLike) -> np.ndarray:
    """multiplier / 2^shift, exactly."""
    return np.ldexp(np.asarray(multiplier, np.float64), -np.asarray(shift, np.int32))


def buffer_bytes(shape: ModelShape, by_row: frozenset[str] = BY_ROW) -> int:
    """Size of the buffer."""
    last = list(sections(shape, by_row).values())[-1]
    return -(-(last.offset + last.bytes) // PAGE) * PAGE


def fill(buffer: np.ndarray, model: IntegerModel, by_row: frozenset[str] = BY_ROW) -> None:
    """Write all of `model` into `buffer` (uint8 [buffer_bytes])."""
    places = sections(model.shape, by_row)

    def put(name: str, value: np.ndarray) -> None:
        places[name].of(buffer)[...] = value

    def put_matrix(name: str, weight: np.ndarray) -> None:
        put(name, (pack_rows if name.rpartition(".")[2] in by_row else pack_outputs)(weight))

    def put_scales(name: str, *projections: Projection | EventProjection) -> None:
        put(f"{name}_scale", np.concatenate([scale(p.multiplier, p.shift) for p in projections]))

    for layer, block in enumerate(model.blocks):
        here = f"{layer}."
        qkv = (block.q, block.k, block.v)
        put_matrix(here + "qkv", np.concatenate([p.weight for p in qkv]))
        put(here + "qkv_threshold", np.concatenate([p.threshold for p in qkv]))
        put_scales(here + "qkv", *qkv)
        for name in ("decay", "out", "down"):
            put_matrix(here + name, getattr(block, name).weight)
            put_scales(here + name, getattr(block, name))
        put_matrix(here + "up", block.up.weight)
        put(here + "up_threshold", block.up.threshold)
        put(here + "spike_threshold", block.spike_threshold)
        put(here + "decay_beta", scale(block.decay_beta, 16))
        for name in ("attention_event", "ffn_event"):
            threshold, multiplier, shift = getattr(block, name)
            put(here + f"{name}_threshold", threshold)
            put(here + f"{name}_scale", scale(multiplier, shift))
        put(here + "mix_scale", scale(block.mix[:2], block.mix[2]))
        put(here + "mix_threshold", block.out_event)
        for name in _NORMS:
            for leaf in ("gamma", "beta", "scalars"):
                put(here + f"{name}.{leaf}", getattr(getattr(block, name), leaf))
    head = model.head
    put_matrix("prior", head.prior.weight)
    put_scales("prior", head.prior)
    put_matrix("fused", head.fused_weight)
    put("fused_scale", head.fused_scale)
    put("head_input_scale", scale(*head.input))
    put("head_threshold", head.event)
    put("gelu_table", head.gelu_table)
    put("embedding", model.embedding_table)
    put("slopes", model.slopes)
    put("rsqrt", ops.rsqrt_table())
