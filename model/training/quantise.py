"""From a float checkpoint to an integer model (docs/arithmetic.md gives the meaning of every integer).

Weights become INT8 with one symmetric scale an output channel; thresholds and scales of the float model are
folded into the integer thresholds, multipliers and shifts, so that nothing real is left.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from symlight.base.errors import UserError

from ..config import PRE_FRAC, RESIDUAL_FRAC, STATE_FRAC, ModelShape, Numerics
from ..scaling import alibi_slopes, gelu_values, mix_gains, multiplier_shift, norm_tensors
from ..shapes import integers_from_json
from ..weights import IntegerModel

UNIT = 1 << RESIDUAL_FRAC
CONSTANTS = ("lif_leak", "lif_threshold", "lif_clamp", "prior_scale", "norm_epsilon")


@dataclass(frozen=True, kw_only=True)
class StaticScales:
    """Fraction bits of int8 tensors with a static scale: a checkpoint with larger outliers wants fewer."""

    mix: int = 5  # W_O input: +-3.97
    head: int = 4  # head input: +-7.94
    gelu_input: int = 4  # table index: [-8, 8)
    gelu_output: int = 4  # table value: +-7.94


@dataclass(frozen=True)
class Checkpoint:
    """Tensors of a float model by name, its shape and the constants that are not tensors."""

    tensors: dict[str, np.ndarray]
    shape: ModelShape
    constants: dict[str, float]
    source: str = "checkpoint"

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.tensors:
            raise UserError(f"{self.source}: tensor {name} is missing")
        tensor = np.asarray(self.tensors[name], np.float64)
        if not np.isfinite(tensor).all():
            raise UserError(f"{self.source}: tensor {name} holds a value that is not a number")
        return tensor

    def matrix(self, name: str, rows: int, columns: int) -> np.ndarray:
        """A tensor of the required shape."""
        tensor = self[name]
        if tensor.shape != (rows, columns):
            raise UserError(
                f"{self.source}: tensor {name} has shape {list(tensor.shape)}, {[rows, columns]} is required"
            )
        return tensor


def read_checkpoint(path: str | Path) -> Checkpoint:
    """A checkpoint file; its metadata entry `model` holds shape and constants as JSON."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        about = json.loads(metadata["model"])
        shape = integers_from_json(ModelShape, about["shape"], str(path))
        constants = {name: float(about["constants"][name]) for name in CONSTANTS}
    except FileNotFoundError as error:
        raise UserError(f"there is no checkpoint {path}") from error
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} is not a checkpoint of a float model ({error!r})") from error
    for name, value in constants.items():
        if not math.isfinite(value):
            raise UserError(f"{path}: constant {name} is {value}, a number is required")
    return Checkpoint(tensors, shape, constants, str(path))


def quantise(checkpoint: Checkpoint, scales: StaticScales = StaticScales()) -> tuple[IntegerModel, float]:
    """(integer model, logit scale): real logit = integer logit * logit scale."""
    shape, constants = checkpoint.shape, checkpoint.constants
    numerics = Numerics(
        lif_leak=round(constants["lif_leak"] * 2**15),
        lif_threshold=math.ceil(constants["lif_threshold"] * UNIT),
        lif_clamp=round(constants["lif_clamp"] * UNIT),
    )
    named = {
        "spike_encoder.embedding_table": _embedding(checkpoint),
        "attention.slopes": alibi_slopes(shape, numerics.score_frac),
    }
    for layer in range(shape.layers):
        named |= _block(checkpoint, f"blocks.{layer}", scales)
    head, logit_scale = _head(checkpoint, scales)
    return IntegerModel.from_tensors(shape, numerics, named | head), logit_scale


def quantise_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int8 weights, scale a row): symmetric, matrix is about weights * scale. An empty row has scale 1."""
    largest = np.abs(matrix).max(axis=1)
    scale = np.where(largest > 0, largest / 127, 1.0)
    return np.clip(np.rint(matrix / scale[:, None]), -127, 127).astype(np.int8), scale


def event_threshold(threshold: float, unit) -> np.ndarray:
    """Smallest integer accumulator that reaches a real threshold, for accumulators of `unit` each; int32."""
    return np.clip(np.ceil(threshold / np.asarray(unit)), 1, 2**27 - 1).astype(np.int32)


def _embedding(checkpoint: Checkpoint) -> np.ndarray:
    """The embedding after its layer normalisation, Q4.11."""
    shape = checkpoint.shape
    table = checkpoint.matrix("spike_encoder.frontend.text_embedding.weight", shape.vocab, shape.width)
    centred = table - table.mean(axis=1, keepdims=True)
    root = np.sqrt((centred**2).mean(axis=1, keepdims=True) + checkpoint.constants["norm_epsilon"])
    normal = centred / root * checkpoint["spike_encoder.norm.weight"] + checkpoint["spike_encoder.norm.bias"]
    return np.clip(np.rint(normal * UNIT), -32768, 32767).astype(np.int16)


def _projection(
    checkpoint: Checkpoint, name: str, rows: int, columns: int, gain: float
) -> dict[str, np.ndarray]:
    """weight, multiplier, shift; `gain` is the output unit over the input unit."""
    weight, scale = quantise_rows(checkpoint.matrix(f"{name}.weight", rows, columns))
    multiplier, shift = multiplier_shift(scale * gain)
    return {"weight": weight, "multiplier": multiplier, "shift": shift}


def _event_projection(checkpoint: Checkpoint, prefix: str, letter: str) -> dict[str, np.ndarray]:
    width = checkpoint.shape.width
    theta = float(checkpoint[f"{prefix}.{letter}_event_threshold"])
    weight, scale = quantise_rows(checkpoint.matrix(f"{prefix}.{letter}_proj.weight", width, width))
    multiplier, shift = multiplier_shift(scale / theta)
    return {
        "weight": weight,
        "threshold": event_threshold(theta, scale),
        "multiplier": multiplier,
        "shift": shift,
    }


def _event(checkpoint: Checkpoint, name: str) -> np.ndarray:
    """(T, M, sh) of an event on the residual stream."""
    theta = float(checkpoint[name])
    multiplier, shift = multiplier_shift(1 / (theta * UNIT))
    return np.array([min(int(event_threshold(theta, 1 / UNIT)), 32767), multiplier, shift], np.int32)


def _norm(checkpoint: Checkpoint, name: str) -> dict[str, np.ndarray]:
    return norm_tensors(
        checkpoint[f"{name}.weight"],
        checkpoint[f"{name}.bias"],
        checkpoint.shape.width,
        checkpoint.constants["norm_epsilon"],
    )


def _block(checkpoint: Checkpoint, block: str, scales: StaticScales) -> dict[str, np.ndarray]:
    width, ffn = checkpoint.shape.width, checkpoint.shape.ffn
    up, up_scale = quantise_rows(checkpoint.matrix(f"{block}.ffn.up.weight", ffn, width))
    up_threshold = np.ceil(float(checkpoint[f"{block}.ffn.spike_threshold"]) / up_scale)
    parts = {
        **{
            f"tcam.sparse_attn.{letter}_proj": _event_projection(
                checkpoint, f"{block}.tcam.sparse_attn", letter
            )
            for letter in "qkv"
        },
        "tcam.tcam_proj": _projection(checkpoint, f"{block}.tcam.tcam_proj", width, width, 2.0**STATE_FRAC),
        "tcam.out_proj": _projection(
            checkpoint, f"{block}.tcam.out_proj", width, width, 2.0 ** (PRE_FRAC - scales.mix)
        ),
        "tcam.norm": _norm(checkpoint, f"{block}.tcam.norm"),
        "ffn.up": {"weight": up, "threshold": np.clip(up_threshold, -(2**31), 2**31 - 1).astype(np.int32)},
        "ffn.down": _projection(checkpoint, f"{block}.ffn.down", width, ffn, 2.0**PRE_FRAC),
        "ffn.norm": _norm(checkpoint, f"{block}.ffn.norm"),
    }
    named = {
        f"{block}.{part}.{leaf}": value for part, leaves in parts.items() for leaf, value in leaves.items()
    }
    decay = 1 / (1 + np.exp(checkpoint[f"{block}.tcam.decay_raw"]))  # 1 - sigmoid
    tau = math.ceil(float(checkpoint[f"{block}.spike_threshold"]) * UNIT)
    return named | {
        f"{block}.tcam.event": _event(checkpoint, f"{block}.tcam.event_threshold"),
        f"{block}.ffn.event": _event(checkpoint, f"{block}.ffn.event_threshold"),
        f"{block}.tcam.decay_beta": np.clip(np.rint(decay * 65536), 0, 65535).astype(np.uint16),
        f"{block}.tcam.mix": mix_gains(
            1 / (1 + math.exp(-float(checkpoint[f"{block}.tcam.attn_gate"]))), scales.mix
        ),
        f"{block}.spike_threshold": np.full(width, min(max(tau, -32768), 32767), np.int16),
        **_out_event(checkpoint, block, scales),
    }


def _out_event(checkpoint: Checkpoint, block: str, scales: StaticScales) -> dict[str, np.ndarray]:
    """T_m where the checkpoint has the event site: |rounded| >= T_m for about |x| >= the threshold."""
    name = f"{block}.tcam.out_threshold"
    if name not in checkpoint.tensors:
        return {}
    threshold = round(float(checkpoint[name]) * 2.0**scales.mix + 0.5)
    return {f"{block}.tcam.out_event": np.array([min(max(threshold, 1), 127)], np.int32)}


def _head(checkpoint: Checkpoint, scales: StaticScales) -> tuple[dict[str, np.ndarray], float]:
    """Head tensors and the logit scale; a vocabulary row has one scale for both parts of the fused matrix."""
    shape = checkpoint.shape
    prior = _projection(
        checkpoint,
        "output_head.prior_net.0",
        shape.bottleneck,
        shape.width,
        2.0 ** (scales.gelu_input - scales.head),
    )
    out = checkpoint.matrix("output_head.output_proj.weight", shape.vocab, shape.width)
    correction = checkpoint.matrix("output_head.prior_net.2.weight", shape.vocab, shape.bottleneck)
    correction = correction * checkpoint.constants["prior_scale"]
    fused, row_scale = quantise_rows(
        np.concatenate([out * 2.0**-scales.head, correction * 2.0**-scales.gelu_output], axis=1)
    )
    row_scale = np.where(fused.any(axis=1), row_scale, 0)
    logit_scale = float(row_scale.max()) / 65535 or 1.0
    head_scale = multiplier_shift(2.0 ** (scales.head - RESIDUAL_FRAC))
    floor, site = 0.0, {}
    if "output_head.threshold" in checkpoint.tensors:
        least = math.ceil(float(checkpoint["output_head.threshold"]) * UNIT)
        site["output_head.event"] = np.array([min(max(least, 1), 32767)], np.int32)
        floor = float(checkpoint["output_head.hidden_threshold"])
    return {
        "output_head.input": np.array(head_scale, np.int32),
        **{f"output_head.prior_net.0.{leaf}": value for leaf, value in prior.items()},
        "output_head.gelu_table": gelu_values(scales.gelu_input, 2.0**-scales.gelu_output, floor),
        "output_head.fused.weight": fused,
        "output_head.fused.scale": np.rint(row_scale / logit_scale).astype(np.uint16),
        **site,
    }, logit_scale
