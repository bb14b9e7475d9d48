"""The integer tensors of a model, and the one table that names them.

`TENSORS` gives name, place, shape, dtype and range of every tensor; loader, saver, validation and the random
generator derive from it. Field names of the dataclasses below follow the last parts of the tensor names.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from symlight.base.errors import UserError

from .config import ModelShape, Numerics


@dataclass(frozen=True, eq=False)
class Projection:
    """A matrix [out, in] whose accumulators are requantised: multiplier and shift a channel."""

    weight: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True, eq=False)
class EventProjection:
    """A matrix [out, in] whose accumulators become events: threshold, multiplier and shift a channel."""

    weight: np.ndarray
    threshold: np.ndarray
    multiplier: np.ndarray
    shift: np.ndarray


@dataclass(frozen=True, eq=False)
class SpikeProjection:
    """A matrix [out, in] whose accumulators become spikes: 1 where acc >= threshold."""

    weight: np.ndarray
    threshold: np.ndarray


@dataclass(frozen=True, eq=False)
class Norm:
    """Layer normalisation; scalars = (gamma_shift, epsilon)."""

    gamma: np.ndarray
    beta: np.ndarray
    scalars: np.ndarray


@dataclass(frozen=True, eq=False)
class BlockWeights:
    """One block; events are (T, M, sh), mix is (G_o, G_h, sh_m)."""

    attention_event: np.ndarray
    q: EventProjection
    k: EventProjection
    v: EventProjection
    decay: Projection
    decay_beta: np.ndarray
    mix: np.ndarray
    out: Projection
    attention_norm: Norm
    ffn_event: np.ndarray
    up: SpikeProjection
    down: Projection
    ffn_norm: Norm
    spike_threshold: np.ndarray


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """Decoding head; input = (M_h, sh_h), fused = [W_out, 0.1 W_p2] with one scale a vocabulary row."""

    input: np.ndarray
    prior: Projection
    gelu_table: np.ndarray
    fused_weight: np.ndarray
    fused_scale: np.ndarray


@dataclass(frozen=True)
class TensorSpec:
    """One row of the table. `name` holds N where the block number goes; `place` is the attribute path."""

    name: str
    place: str
    dims: tuple[str | int, ...]
    dtype: str
    low: int | tuple[int, ...]
    high: int | tuple[int, ...]
    meaning: str

    def shape(self, shape: ModelShape) -> tuple[int, ...]:
        """The dimensions for a model shape."""
        symbols = {
            "D": shape.width,
            "H": shape.heads,
            "F": shape.ffn,
            "V": shape.vocab,
            "B": shape.bottleneck,
            "D+B": shape.head_rows,
        }
        return tuple(symbols[d] if isinstance(d, str) else d for d in self.dims)

    def check(self, name: str, array: np.ndarray, shape: ModelShape) -> None:
        """A `UserError` that names the tensor and the offending value, unless everything fits."""
        if array.dtype != np.dtype(self.dtype):
            raise UserError(f"tensor {name} has dtype {array.dtype}, {self.dtype} is required")
        if array.shape != self.shape(shape):
            raise UserError(
                f"tensor {name} has shape {list(array.shape)}, {list(self.shape(shape))} is required"
            )
        bad = (array < np.asarray(self.low)) | (array > np.asarray(self.high))
        if bad.any():
            index = tuple(int(i[0]) for i in np.nonzero(bad))
            low, high = (np.broadcast_to(limit, array.shape)[index] for limit in (self.low, self.high))
            raise UserError(
                f"tensor {name} holds {array[index]} at {list(index)}, which is outside {low}..{high}"
            )


W, M, SH = ("int8", -127, 127), ("int16", 0, 32767), ("uint8", 1, 47)
I16, I32 = ("int16", -32768, 32767), ("int32", -(2**31), 2**31 - 1)
EVENT = ("int32", (1, 0, 1), (32767, 32767, 47))
NORM_SCALARS = ("int32", (1, 16), (31, 2**31 - 1))


def _projection(name: str, place: str, rows: str, columns: str, text: str) -> list[TensorSpec]:
    return [
        TensorSpec(f"{name}.weight", f"{place}.weight", (rows, columns), *W, text),
        TensorSpec(f"{name}.multiplier", f"{place}.multiplier", (rows,), *M, "M a channel"),
        TensorSpec(f"{name}.shift", f"{place}.shift", (rows,), *SH, "sh a channel"),
    ]


def _event_projection(letter: str) -> list[TensorSpec]:
    name = f"blocks.N.tcam.sparse_attn.{letter}_proj"
    weight, *rest = _projection(name, letter, "D", "D", f"W_{letter.upper()} [out, in]")
    threshold = TensorSpec(
        f"{name}.threshold", f"{letter}.threshold", ("D",), "int32", 1, 2**27 - 1, "T a channel"
    )
    return [weight, threshold, *rest]


def _norm(name: str, place: str, text: str) -> list[TensorSpec]:
    return [
        TensorSpec(f"{name}.gamma", f"{place}.gamma", ("D",), *I16, f"gamma of {text}, sqrt(D) folded in"),
        TensorSpec(f"{name}.beta", f"{place}.beta", ("D",), *I16, f"beta of {text}, Q4.11"),
        TensorSpec(f"{name}.scalars", f"{place}.scalars", (2,), *NORM_SCALARS, "gamma_shift, epsilon"),
    ]


MODEL_TENSORS = [
    TensorSpec(
        "spike_encoder.embedding_table", "embedding_table", ("V", "D"), *I16, "normalised embedding, Q4.11"
    ),
    TensorSpec(
        "attention.slopes", "slopes", ("H",), "int16", 0, 1023, "slope a head, with score_frac fraction bits"
    ),
]

BLOCK_TENSORS = [
    TensorSpec("blocks.N.tcam.event", "attention_event", (3,), *EVENT, "T_c, M_c, sh_c"),
    *_event_projection("q"),
    *_event_projection("k"),
    *_event_projection("v"),
    *_projection("blocks.N.tcam.tcam_proj", "decay", "D", "D", "W_T [out, in]"),
    TensorSpec(
        "blocks.N.tcam.decay_beta", "decay_beta", ("H",), "uint16", 0, 65535, "1 - alpha a head, Q0.16"
    ),
    TensorSpec("blocks.N.tcam.mix", "mix", (3,), "int32", (0, 0, 1), (32767, 32767, 47), "G_o, G_h, sh_m"),
    *_projection("blocks.N.tcam.out_proj", "out", "D", "D", "W_O [out, in]"),
    *_norm("blocks.N.tcam.norm", "attention_norm", "layer_norm_1"),
    TensorSpec("blocks.N.ffn.event", "ffn_event", (3,), *EVENT, "T_u, M_u, sh_u"),
    TensorSpec("blocks.N.ffn.up.weight", "up.weight", ("F", "D"), *W, "W_up [out, in]"),
    TensorSpec("blocks.N.ffn.up.threshold", "up.threshold", ("F",), *I32, "spikes where acc >= T"),
    *_projection("blocks.N.ffn.down", "down", "D", "F", "W_down [out, in]"),
    *_norm("blocks.N.ffn.norm", "ffn_norm", "layer_norm_2"),
    TensorSpec("blocks.N.spike_threshold", "spike_threshold", ("D",), *I16, "tau a channel, Q4.11"),
]

HEAD_TENSORS = [
    TensorSpec("output_head.input", "input", (2,), "int32", (0, 1), (32767, 47), "M_h, sh_h"),
    *_projection("output_head.prior_net.0", "prior", "B", "D", "W_p1 [out, in]"),
    TensorSpec("output_head.gelu_table", "gelu_table", (256,), "int8", -127, 127, "GELU of index - 128"),
    TensorSpec("output_head.fused.weight", "fused_weight", ("V", "D+B"), *W, "[W_out, 0.1 W_p2] [out, in]"),
    TensorSpec(
        "output_head.fused.scale", "fused_scale", ("V",), "uint16", 0, 65535, "scale a vocabulary row"
    ),
]

TENSORS = [*MODEL_TENSORS, *BLOCK_TENSORS, *HEAD_TENSORS]

_PARTS = {
    "q": EventProjection,
    "k": EventProjection,
    "v": EventProjection,
    "decay": Projection,
    "out": Projection,
    "up": SpikeProjection,
    "down": Projection,
    "attention_norm": Norm,
    "ffn_norm": Norm,
    "prior": Projection,
}


def tensor_names(shape: ModelShape) -> Iterator[tuple[str, TensorSpec]]:
    """Every tensor of a model of this shape, blocks numbered, in table order."""
    yield from ((spec.name, spec) for spec in MODEL_TENSORS)
    for layer in range(shape.layers):
        yield from ((spec.name.replace(".N.", f".{layer}."), spec) for spec in BLOCK_TENSORS)
    yield from ((spec.name, spec) for spec in HEAD_TENSORS)


def _build(cls, specs: list[TensorSpec], tensors: dict[str, np.ndarray], layer: int | None = None):
    """A dataclass of the table's rows, nested parts included."""
    fields: dict = {}
    for spec in specs:
        value = tensors[spec.name if layer is None else spec.name.replace(".N.", f".{layer}.")]
        part, _, leaf = spec.place.partition(".")
        if leaf:
            fields.setdefault(part, {})[leaf] = value
        else:
            fields[part] = value
    return cls(
        **{
            name: _PARTS[name](**value) if isinstance(value, dict) else value
            for name, value in fields.items()
        }
    )


def _lookup(owner, place: str) -> np.ndarray:
    for part in place.split("."):
        owner = getattr(owner, part)
    return owner


@dataclass(frozen=True, eq=False)
class IntegerModel:
    """All tensors of a model, checked against the table when built."""

    shape: ModelShape
    numerics: Numerics
    embedding_table: np.ndarray
    slopes: np.ndarray
    blocks: tuple[BlockWeights, ...]
    head: HeadWeights

    @classmethod
    def from_tensors(
        cls, shape: ModelShape, numerics: Numerics, tensors: dict[str, np.ndarray]
    ) -> "IntegerModel":
        """Build from named tensors; a missing, unknown or ill-formed one is a `UserError`."""
        expected = dict(tensor_names(shape))
        missing = [name for name in expected if name not in tensors]
        unknown = sorted(set(tensors) - set(expected))
        if missing:
            raise UserError(f"tensor {missing[0]} is missing ({len(missing)} missing in all)")
        if unknown:
            raise UserError(f"tensor {unknown[0]} is unknown ({len(unknown)} unknown in all)")
        for name, spec in expected.items():
            spec.check(name, tensors[name], shape)
        return cls(
            shape=shape,
            numerics=numerics,
            embedding_table=tensors["spike_encoder.embedding_table"],
            slopes=tensors["attention.slopes"],
            blocks=tuple(
                _build(BlockWeights, BLOCK_TENSORS, tensors, layer) for layer in range(shape.layers)
            ),
            head=_build(HeadWeights, HEAD_TENSORS, tensors),
        )

    def tensors(self) -> dict[str, np.ndarray]:
        """Every tensor by name, in table order; the arrays themselves, not copies."""
        result = {}
        for name, spec in tensor_names(self.shape):
            owner = self
            if spec in BLOCK_TENSORS:
                owner = self.blocks[int(name.split(".")[1])]
            elif spec in HEAD_TENSORS:
                owner = self.head
            result[name] = _lookup(owner, spec.place)
        return result
