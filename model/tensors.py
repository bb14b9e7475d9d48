"""The one table of a model's integer tensors: name, place, shape, dtype and range of each.

Loader, saver, validation and the random generator derive from it.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from symlight.base.errors import UserError

from .config import OPTIONAL_SITES, ModelShape


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
    site: str | None = None  # of OPTIONAL_SITES: only models with this event site have the tensor

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
    TensorSpec(
        "blocks.N.tcam.out_event",
        "out_event",
        (1,),
        "int32",
        0,
        127,
        "T_m, 0: this block has no such site; only with the event site out",
        site="out",
    ),
]

HEAD_TENSORS = [
    TensorSpec("output_head.input", "input", (2,), "int32", (0, 1), (32767, 47), "M_h, sh_h"),
    *_projection("output_head.prior_net.0", "prior", "B", "D", "W_p1 [out, in]"),
    TensorSpec("output_head.gelu_table", "gelu_table", (256,), "int8", -127, 127, "GELU of index - 128"),
    TensorSpec("output_head.fused.weight", "fused_weight", ("V", "D+B"), *W, "[W_out, 0.1 W_p2] [out, in]"),
    TensorSpec(
        "output_head.fused.scale", "fused_scale", ("V",), "uint16", 0, 65535, "scale a vocabulary row"
    ),
    TensorSpec(
        "output_head.event",
        "event",
        (1,),
        "int32",
        1,
        32767,
        "T_h; only with the event site head",
        site="head",
    ),
]

TENSORS = [*MODEL_TENSORS, *BLOCK_TENSORS, *HEAD_TENSORS]


def tensor_names(shape: ModelShape, sites: Collection[str] = ()) -> Iterator[tuple[str, TensorSpec]]:
    """Every tensor of a model of this shape, blocks numbered, in table order; with those of the optional
    event `sites`."""
    block, head = (
        [spec for spec in specs if spec.site is None or spec.site in sites]
        for specs in (BLOCK_TENSORS, HEAD_TENSORS)
    )
    yield from ((spec.name, spec) for spec in MODEL_TENSORS)
    for layer in range(shape.layers):
        yield from ((spec.name.replace(".N.", f".{layer}."), spec) for spec in block)
    yield from ((spec.name, spec) for spec in head)


def sites_of(tensors: Collection[str]) -> tuple[str, ...]:
    """The optional event sites for which there is any tensor among these names."""
    named = {
        spec.site
        for spec in TENSORS
        if spec.site and any(re.fullmatch(spec.name.replace(".N.", r"\.\d+\."), name) for name in tensors)
    }
    return tuple(site for site in OPTIONAL_SITES if site in named)
