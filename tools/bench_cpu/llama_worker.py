"""Worker: llama.cpp on a Q8_0 model with random weights and as many of them a token as the V2 model has.

Runs in the peers' environment:
llama_worker.py MODEL.gguf WEIGHTS_OF_THE_LAYERS WEIGHTS_OF_THE_HEAD LAYERS WIDTH
"""

import sys
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
from worker import answer, seconds_of

HEAD_WIDTH, CONTEXT, UNIT = 64, 1024, 32


def write_model(file: Path, layers_weights: int, head_weights: int, layers: int, width: int) -> None:
    """A llama model: q, k, v, o of the width, a feed-forward width and a vocabulary that give the weights."""
    square = 4 * width * width
    ffn = round((layers_weights / layers - square) / (3 * width) / UNIT) * UNIT
    left = layers_weights + head_weights - layers * (square + 3 * width * ffn)
    vocab = round(left / width / UNIT) * UNIT
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(width // HEAD_WIDTH)
    writer.add_head_count_kv(width // HEAD_WIDTH)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab)
    writer.add_tokenizer_model("none")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = rng.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))

    matrix("token_embd", vocab, width)
    matrix("output", vocab, width)
    norm("output_norm")
    for layer in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}", width, width)
        matrix(f"blk.{layer}.ffn_gate", ffn, width)
        matrix(f"blk.{layer}.ffn_up", ffn, width)
        matrix(f"blk.{layer}.ffn_down", width, ffn)
        norm(f"blk.{layer}.attn_norm")
        norm(f"blk.{layer}.ffn_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Llama:
    """A model and one context."""

    def __init__(self, file: Path):
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_default_params()
        model.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(str(file).encode(), model)
        context = llama_cpp.llama_context_default_params()
        context.n_ctx, context.n_batch, context.n_ubatch = CONTEXT, 512, 512
        self._context = llama_cpp.llama_init_from_model(self._model, context)
        if not self._context:
            raise SystemExit(f"llama.cpp does not load {file}")

    def about(self) -> str:
        """What llama.cpp says about the machine."""
        return f"llama-cpp-python {llama_cpp.__version__}: {llama_cpp.llama_print_system_info().decode()}"

    def bytes(self) -> int:
        """Of the model file's tensors."""
        return int(llama_cpp.llama_model_size(self._model))

    def _feed(self, tokens: list[int]) -> None:
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        if llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(tokens))):
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self._context)

    def decode(self, prefix: int, tokens: int, threads: int) -> list[float]:
        """Seconds of decode passes after `prefix` tokens; choosing a token is not counted."""
        self._start(threads)
        self._feed(list(range(1, prefix)))
        seconds: list[float] = seconds_of(lambda: self._feed([7]), tokens, threads)
        return seconds

    def prefill(self, prefix: int, threads: int) -> list[float]:
        """Seconds a token of ingesting a prompt."""
        self._start(threads)
        return [
            seconds / prefix
            for seconds in seconds_of(lambda: self._feed(list(range(1, prefix + 1))), 1, threads)
        ]

    def _start(self, threads: int) -> None:
        llama_cpp.llama_set_n_threads(self._context, threads, threads)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    if not path.exists():
        temporary = path.with_suffix(".part")
        write_model(temporary, *map(int, sys.argv[2:6]))
        temporary.rename(path)
    llama = Llama(path)
    answer({name: getattr(llama, name) for name in ("about", "bytes", "decode", "prefill")})
