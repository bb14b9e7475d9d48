"""Worker: llama.cpp on a Q8_0 model with random weights. Runs in the peers' environment.

llama_worker.py MODEL.gguf llama WEIGHTS_OF_THE_LAYERS WEIGHTS_OF_THE_HEAD LAYERS WIDTH
llama_worker.py MODEL.gguf rwkv7
"""

import sys
from pathlib import Path

import llama_cpp
from gguf_models import CONTEXT, write_llama, write_rwkv7
from worker import answer, seconds_of


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
        {"llama": write_llama, "rwkv7": write_rwkv7}[sys.argv[2]](temporary, *map(int, sys.argv[3:]))
        temporary.rename(path)
    llama = Llama(path)
    answer({name: getattr(llama, name) for name in ("about", "bytes", "decode", "prefill")})
