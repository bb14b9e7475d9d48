"""Peers of the CPU paper as GGUF files: public shapes, written by hand, with random Q8_0 weights.

Their speed and size are those of the real models; their texts mean nothing. Nothing is downloaded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BLOCK, BLOCK_BYTES = 32, 34  # weights and bytes of a Q8_0 block: a float16 scale, then the weights
CHUNK = 1 << 26  # bytes that are drawn; larger matrices repeat them


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A dense Transformer. `ratio` is the paper's decode speed of the 0.8B V1 model over this one's."""

    name: str
    architecture: str  # as llama.cpp calls it
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    ffn: int
    vocab: int
    tied: bool  # the head uses the embedding's weights
    bias: bool  # query, key and value have biases
    rope_base: float
    epsilon: float
    ratio: float

    def matrices(self) -> Iterator[tuple[str, int, int]]:
        """(name, outputs, inputs) of everything in Q8_0."""
        queries, keys = self.heads * self.head_width, self.kv_heads * self.head_width
        yield "token_embd", self.vocab, self.width
        for i in range(self.layers):
            yield f"blk.{i}.attn_q", queries, self.width
            yield f"blk.{i}.attn_k", keys, self.width
            yield f"blk.{i}.attn_v", keys, self.width
            yield f"blk.{i}.attn_output", self.width, queries
            yield f"blk.{i}.ffn_gate", self.ffn, self.width
            yield f"blk.{i}.ffn_up", self.ffn, self.width
            yield f"blk.{i}.ffn_down", self.width, self.ffn
        if not self.tied:
            yield "output", self.vocab, self.width

    @property
    def bytes_a_token(self) -> int:
        """Weight bytes that a decode pass reads: all matrices, but of the embedding one row unless tied."""
        read = sum(outputs * inputs for name, outputs, inputs in self.matrices() if name != "token_embd")
        return (read + self.tied * self.vocab * self.width) * BLOCK_BYTES // BLOCK


PEERS = (
    Peer(
        name="TinyLlama-1.1B",
        architecture="llama",
        width=2048,
        layers=22,
        heads=32,
        kv_heads=4,
        head_width=64,
        ffn=5632,
        vocab=32000,
        tied=False,
        bias=False,
        rope_base=1e4,
        epsilon=1e-5,
        ratio=1.39,
    ),
    Peer(
        name="Falcon3-1B",
        architecture="llama",
        width=2048,
        layers=18,
        heads=8,
        kv_heads=4,
        head_width=256,
        ffn=8192,
        vocab=131072,
        tied=False,
        bias=False,
        rope_base=1000042,
        epsilon=1e-6,
        ratio=2.01,
    ),
    Peer(
        name="Qwen2.5-1.5B",
        architecture="qwen2",
        width=1536,
        layers=28,
        heads=12,
        kv_heads=2,
        head_width=128,
        ffn=8960,
        vocab=151936,
        tied=True,
        bias=True,
        rope_base=1e6,
        epsilon=1e-6,
        ratio=2.33,
    ),
    Peer(
        name="Qwen2.5-0.5B",
        architecture="qwen2",
        width=896,
        layers=24,
        heads=14,
        kv_heads=2,
        head_width=64,
        ffn=4864,
        vocab=151936,
        tied=True,
        bias=True,
        rope_base=1e6,
        epsilon=1e-6,
        ratio=0.69,
    ),
)


def write_gguf(peer: Peer, file: Path, seed: int = 0) -> Path:
    """The peer's file, written unless it is there."""
    import gguf

    if file.exists():
        return file
    drawn = _blocks(np.random.default_rng(seed), CHUNK)
    part = file.with_suffix(".part")
    writer = gguf.GGUFWriter(part, peer.architecture)
    writer.add_context_length(2048)
    writer.add_embedding_length(peer.width)
    writer.add_block_count(peer.layers)
    writer.add_feed_forward_length(peer.ffn)
    writer.add_head_count(peer.heads)
    writer.add_head_count_kv(peer.kv_heads)
    writer.add_key_length(peer.head_width)
    writer.add_value_length(peer.head_width)
    writer.add_rope_dimension_count(peer.head_width)
    writer.add_rope_freq_base(peer.rope_base)
    writer.add_layer_norm_rms_eps(peer.epsilon)
    writer.add_vocab_size(peer.vocab)
    writer.add_tokenizer_model("no_vocab")
    for name, outputs, inputs in peer.matrices():
        size = outputs * inputs // BLOCK * BLOCK_BYTES
        weights = np.resize(drawn, size).reshape(outputs, inputs // BLOCK * BLOCK_BYTES)
        writer.add_tensor(f"{name}.weight", weights, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    ones = np.ones(peer.width, np.float32)
    for i in range(peer.layers):
        writer.add_tensor(f"blk.{i}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{i}.ffn_norm.weight", ones)
        if peer.bias:
            for part_name, heads in (("q", peer.heads), ("k", peer.kv_heads), ("v", peer.kv_heads)):
                writer.add_tensor(
                    f"blk.{i}.attn_{part_name}.bias", np.zeros(heads * peer.head_width, np.float32)
                )
    writer.add_tensor("output_norm.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.rename(file)
    return file


def _blocks(random: np.random.Generator, size: int) -> np.ndarray:
    """Random Q8_0 blocks, uint8; the scale makes products of the usual size."""
    count = size // BLOCK_BYTES
    blocks = np.empty((count, BLOCK_BYTES), np.uint8)
    blocks[:, :2] = np.frombuffer(np.float16(2e-4).tobytes(), np.uint8)
    blocks[:, 2:] = random.integers(-127, 128, (count, BLOCK), np.int8).view(np.uint8)
    return blocks.reshape(-1)
