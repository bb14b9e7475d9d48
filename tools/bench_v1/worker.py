"""A process with one engine, which does what lines of standard input say and answers a JSON line each.

    python -m symlight.tools.bench_v1.worker v1 PACKAGE THREADS [ISA] [row]
    python -m symlight.tools.bench_v1.worker llama FILE.gguf THREADS

Lines: `start N` (a new text of N tokens), `decode N`, `prefill N` (a new text), `read`, `memory`.
"""

import json
import sys
import time
from pathlib import Path
from typing import Protocol

import numpy as np

from symlight.tools.bench_cpu.worker import peak_mb

TOKEN = 100  # prompts are a token of beginning and this one repeated, as in the paper


class Contender(Protocol):
    """An engine under test. Both calls go on with one text and give seconds."""

    def restart(self) -> None: ...

    def ingest(self, tokens: list[int]) -> None:
        """Ingest tokens, and work out the logits of the last."""

    def next_token(self) -> int:
        """The likeliest token after the last call."""


class V1Contender:
    """Our engine."""

    def __init__(self, package: str, threads: int, isa: str | None = None, by_row: bool = False):
        from symlight.cpu.v1.engine import EngineV1
        from symlight.model.v1.package import load_v1

        self.engine = EngineV1(load_v1(package), threads, isa=isa, by_row=by_row)
        self._session = self.engine.session()
        self._logits = np.zeros((1, 1))

    def restart(self) -> None:
        self._session.reset()

    def ingest(self, tokens: list[int]) -> None:
        self._logits = self.engine.run(self._session, tokens, wanted=1)

    def next_token(self) -> int:
        return int(self._logits[-1].argmax())

    def read(self) -> float:
        """Bytes a second of reading the weights once, from end to end."""
        return self.engine.read_bandwidth()


class LlamaContender:
    """llama.cpp through llama-cpp-python's low-level interface."""

    def __init__(self, file: str, threads: int):
        import ctypes

        import llama_cpp

        self._c, self._vocab = llama_cpp, None
        self._quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._quiet, ctypes.c_void_p(0))
        self._model = llama_cpp.llama_model_load_from_file(
            file.encode(), llama_cpp.llama_model_default_params()
        )
        if not self._model:
            raise SystemExit(f"llama.cpp cannot load {file}")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = 1024, 512, 512
        options.n_threads = options.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(self._model, options)
        self._size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))

    def restart(self) -> None:
        self._c.llama_memory_clear(self._c.llama_get_memory(self._context), True)

    def ingest(self, tokens: list[int]) -> None:
        array = (self._c.llama_token * len(tokens))(*tokens)
        if self._c.llama_decode(self._context, self._c.llama_batch_get_one(array, len(tokens))):
            raise SystemExit("llama.cpp failed to decode")

    def next_token(self) -> int:
        logits = self._c.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, (self._size,)).argmax())


class Worker:
    """The commands."""

    def __init__(self, contender: Contender):
        self._contender, self._token = contender, TOKEN

    def start(self, count: int) -> dict:
        return self.prefill(count)

    def prefill(self, count: int) -> dict:
        self._contender.restart()
        began = time.perf_counter()
        self._contender.ingest([1, *[TOKEN] * (count - 1)])
        self._token = self._contender.next_token()
        return {"seconds": time.perf_counter() - began}

    def decode(self, count: int) -> dict:
        began, processor = time.perf_counter(), time.process_time()
        for _ in range(count):
            self._contender.ingest([self._token])
            self._token = self._contender.next_token()
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        return {"seconds": seconds, "processor_seconds": processor, "token": self._token}

    def _ours(self) -> V1Contender:
        if not isinstance(self._contender, V1Contender):
            raise SystemExit("only the engine of symlight measures this")
        return self._contender

    def read(self, _: int) -> dict:
        return {"bytes_per_second": self._ours().read()}

    def density(self, _: int) -> dict:
        engine = self._ours().engine
        widths = np.array([engine.shape.width, engine.shape.ffn])
        return {"density": (engine.active.mean(axis=0) / engine.positions / widths).tolist()}

    def memory(self, _: int) -> dict:
        """The most memory that was resident, bytes; files that are mapped count."""
        return {"peak_bytes": int(peak_mb() * 2**20)}


def main(arguments: list[str]) -> None:
    kind, file, threads, *rest = arguments
    if kind == "v1":
        isa = next((word for word in rest if word != "row"), None)
        contender: Contender = V1Contender(file, int(threads), isa, "row" in rest)
    else:
        contender = LlamaContender(str(Path(file)), int(threads))
    worker = Worker(contender)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command, _, count = line.strip().partition(" ")
        print(json.dumps(getattr(worker, command)(int(count or 0))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
