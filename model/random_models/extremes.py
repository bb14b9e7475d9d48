"""Random models at the edges of the arithmetic: no positive score, every clamp reached, empty groups.

Each function changes the tensors of a random model in place; `synthetic.random_model` picks one by name.
"""

import numpy as np

from ..config import RESIDUAL_FRAC, ModelShape

UNIT = 1 << RESIDUAL_FRAC


def _blocks(shape: ModelShape, tensors: dict[str, np.ndarray]):
    """For each block a function that sets one tensor to a value of its own dtype, broadcast."""
    for layer in range(shape.layers):

        def put(name: str, value, layer=layer):
            old = tensors[f"blocks.{layer}.{name}"]
            tensors[f"blocks.{layer}.{name}"] = np.ascontiguousarray(
                np.broadcast_to(value, old.shape)
            ).astype(old.dtype)

        yield put


def negative_scores(shape: ModelShape, tensors: dict[str, np.ndarray], rng) -> None:
    """Inputs are positive, W_K is positive, W_Q negative: every score is below zero."""
    tensors["spike_encoder.embedding_table"] = np.abs(tensors["spike_encoder.embedding_table"] // 2) + UNIT
    size = (shape.width, shape.width)
    for put in _blocks(shape, tensors):
        put("tcam.event", [1, 16384, 24])  # 1.0 becomes 2
        put("tcam.sparse_attn.k_proj.weight", rng.integers(1, 128, size))
        put("tcam.sparse_attn.q_proj.weight", -rng.integers(1, 128, size))
        for letter in "qk":
            put(f"tcam.sparse_attn.{letter}_proj.threshold", 1)
            put(f"tcam.sparse_attn.{letter}_proj.multiplier", 16384)
            put(f"tcam.sparse_attn.{letter}_proj.shift", 24)
        put("ffn.norm.gamma", 0)
        put("ffn.norm.beta", rng.integers(UNIT, 3 * UNIT, shape.width))


def saturate(shape: ModelShape, tensors: dict[str, np.ndarray], rng) -> None:
    """Constant extreme weights; rows alternate in sign so that both ends of every clamp are reached."""
    sign = np.where(np.arange(shape.width) % 2, -1, 1)
    wide, ffn_sign = 127 * shape.width * 127, np.where(np.arange(shape.ffn) % 2, -1, 1)
    token_sign = np.where(np.arange(shape.vocab) % 3 == 2, -32768, 32767)
    tensors["spike_encoder.embedding_table"][...] = token_sign[:, None]
    for put in _blocks(shape, tensors):
        for name in ("tcam.event", "ffn.event"):
            put(name, [1, 32767, 1])
        for letter in "qkv":
            prefix = f"tcam.sparse_attn.{letter}_proj"
            put(f"{prefix}.weight", 127)
            put(f"{prefix}.threshold", wide)  # met exactly
        for name in (
            "tcam.sparse_attn.q_proj",
            "tcam.sparse_attn.k_proj",
            "tcam.sparse_attn.v_proj",
            "tcam.tcam_proj",
            "tcam.out_proj",
            "ffn.down",
        ):
            put(f"{name}.multiplier", 32767)
            put(f"{name}.shift", 1)
        put("tcam.tcam_proj.weight", 127 * sign[:, None])
        put("tcam.decay_beta", 32768)  # the state outweighs o for one token without spikes
        put("tcam.mix", [32767, 32767, 1])
        put("tcam.out_proj.weight", 127 * sign[:, None] * sign)
        put("tcam.norm.gamma", 32767)
        put("tcam.norm.beta", 0)
        put("tcam.norm.scalars", [1, 16])
        put("ffn.up.weight", 127 * ffn_sign[:, None] * sign)
        put("ffn.up.threshold", wide)
        put("ffn.down.weight", 127 * sign[:, None])
        put("ffn.norm.gamma", 0)
        put("ffn.norm.beta", 32767)
    head_sign = np.where(np.arange(shape.vocab) % 2, 127, -127)
    tensors["output_head.prior_net.0.weight"][...] = np.where(np.arange(shape.bottleneck) % 2, -127, 127)[
        :, None
    ]
    tensors["output_head.input"] = np.array([32767, 1], np.int32)
    tensors["output_head.gelu_table"][128:], tensors["output_head.gelu_table"][:128] = 127, -127
    tensors["output_head.fused.weight"][...] = head_sign[:, None]
    tensors["output_head.fused.scale"][...] = 65535


def empty_group(shape: ModelShape, tensors: dict[str, np.ndarray], rng) -> None:
    """Only elements 1 mod 4 of every event vector can be nonzero."""
    keep, keep_ffn = np.arange(shape.width) % 4 == 1, np.arange(shape.ffn) % 4 == 1
    tensors["spike_encoder.embedding_table"][:, ~keep] = 0
    for layer, put in enumerate(_blocks(shape, tensors)):
        for name in ("tcam.norm.gamma", "tcam.norm.beta", "ffn.norm.gamma", "ffn.norm.beta"):
            put(name, tensors[f"blocks.{layer}.{name}"] * keep)
        put("spike_threshold", np.where(keep, tensors[f"blocks.{layer}.spike_threshold"], UNIT))
        put("ffn.up.threshold", np.where(keep_ffn, tensors[f"blocks.{layer}.ffn.up.threshold"], 2**31 - 1))


EXTREMES = {change.__name__: change for change in (negative_scores, saturate, empty_group)}
