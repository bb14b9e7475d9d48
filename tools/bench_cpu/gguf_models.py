"""Peers of llama.cpp as GGUF files of random Q8_0 weights. Runs in the peers' environment."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, quants

HEAD_WIDTH, CONTEXT, UNIT = 64, 1024, 32
Q8_0 = GGMLQuantizationType.Q8_0


class Writer:
    """A model file: what every architecture declares, and random tensors."""

    def __init__(self, file: Path, architecture: str, *, width: int, layers: int, ffn: int, vocab: int):
        self._rng = np.random.default_rng(0)
        self.keys = GGUFWriter(str(file), architecture)
        self.keys.add_context_length(CONTEXT)
        self.keys.add_embedding_length(width)
        self.keys.add_block_count(layers)
        self.keys.add_feed_forward_length(ffn)
        self.keys.add_vocab_size(vocab)
        self.keys.add_tokenizer_model("none")
        self.keys.add_file_type(LlamaFileType.MOSTLY_Q8_0)

    def matrix(self, name: str, rows: int, columns: int) -> None:
        """Q8_0, of about unit gain."""
        values = self._rng.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))
        self.keys.add_tensor(f"{name}.weight", quants.quantize(values, Q8_0), raw_dtype=Q8_0)

    def vector(self, name: str, *dims: int) -> None:
        """float32, small."""
        self.keys.add_tensor(name, self._rng.standard_normal(dims, np.float32) * np.float32(0.1))

    def norm(self, name: str, width: int, bias: bool = False) -> None:
        """A normalisation that leaves the scale."""
        self.keys.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        if bias:
            self.vector(f"{name}.bias", width)

    def close(self) -> None:
        """Write the file."""
        self.keys.write_header_to_file()
        self.keys.write_kv_data_to_file()
        self.keys.write_tensors_to_file()
        self.keys.close()


def write_llama(file: Path, layers_weights: int, head_weights: int, layers: int, width: int) -> None:
    """A llama model: q, k, v, o of the width, a feed-forward width and a vocabulary that give the weights."""
    square = 4 * width * width
    ffn = round((layers_weights / layers - square) / (3 * width) / UNIT) * UNIT
    left = layers_weights + head_weights - layers * (square + 3 * width * ffn)
    vocab = round(left / width / UNIT) * UNIT
    writer = Writer(file, "llama", width=width, layers=layers, ffn=ffn, vocab=vocab)
    writer.keys.add_head_count(width // HEAD_WIDTH)
    writer.keys.add_head_count_kv(width // HEAD_WIDTH)
    writer.keys.add_rope_dimension_count(HEAD_WIDTH)
    writer.keys.add_layer_norm_rms_eps(1e-5)
    writer.matrix("token_embd", vocab, width)
    writer.matrix("output", vocab, width)
    writer.norm("output_norm", width)
    for layer in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.matrix(f"blk.{layer}.{name}", width, width)
        writer.matrix(f"blk.{layer}.ffn_gate", ffn, width)
        writer.matrix(f"blk.{layer}.ffn_up", ffn, width)
        writer.matrix(f"blk.{layer}.ffn_down", width, ffn)
        writer.norm(f"blk.{layer}.attn_norm", width)
        writer.norm(f"blk.{layer}.ffn_norm", width)
    writer.close()


def write_rwkv7(file: Path) -> None:
    """RWKV-7 "World" of 191 million weights, the public shape: a recurrent peer of this size."""
    width, layers, ffn, vocab = 768, 12, 3072, 65536
    decay, rate, value, gate = 64, 64, 32, 128  # ranks
    writer = Writer(file, "rwkv7", width=width, layers=layers, ffn=ffn, vocab=vocab)
    writer.keys.add_head_count(0)
    writer.keys.add_layer_norm_eps(1e-5)
    writer.keys.add_wkv_head_size(HEAD_WIDTH)
    writer.keys.add_decay_lora_rank(decay)
    writer.keys.add_iclr_lora_rank(rate)
    writer.keys.add_value_residual_mix_lora_rank(value)
    writer.keys.add_gate_lora_rank(gate)
    writer.matrix("token_embd", vocab, width)
    writer.matrix("output", vocab, width)
    for name in ("token_embd_norm", "output_norm"):
        writer.norm(name, width, bias=True)
    for layer in range(layers):
        here = f"blk.{layer}."
        for name in ("attn_norm", "attn_norm_2", "time_mix_ln"):
            writer.norm(here + name, width, bias=True)
        for name, rank in (("w", decay), ("a", rate), ("v", value if layer else rate)):
            writer.vector(f"{here}time_mix_{name}0.weight", width)
            writer.matrix(f"{here}time_mix_{name}1", rank, width)
            writer.matrix(f"{here}time_mix_{name}2", width, rank)
        writer.matrix(f"{here}time_mix_g1", gate, width)
        writer.matrix(f"{here}time_mix_g2", width, gate)
        writer.vector(f"{here}time_mix_lerp_fused.weight", 6, 1, 1, width)
        for name in ("k_k", "k_a", "r_k"):
            writer.vector(f"{here}time_mix_{name}.weight", width)
        for name in ("key", "value", "receptance", "output"):
            writer.matrix(f"{here}time_mix_{name}", width, width)
        writer.vector(f"{here}channel_mix_lerp_k.weight", 1, 1, width)
        writer.matrix(f"{here}channel_mix_key", ffn, width)
        writer.matrix(f"{here}channel_mix_value", width, ffn)
    writer.close()
