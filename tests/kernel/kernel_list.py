"""The kernels of these tests, and the processes that build them.

`NAMES` is the whole list: at most eight are ever built, and those whose tests are not `slow` stay few. A
kernel is generated and compiled once per content; the cache lies in the repository's build folder.
"""

import os
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from symlight.host.kernels import KernelInfo, engine_of, obtain_engine, obtain_kernel
from symlight.hw.config import Engine, build
from symlight.sim.build import build_model
from symlight.sim.manifest import read_kernel

CACHE = Path(__file__).resolve().parents[2] / "build" / "cache"
MODELS = CACHE / "models"
OPTIMISE = "-O1"  # half the compile time for a tenth of the speed


def _narrow(channels: int, mode: str) -> Engine:
    """Half the lanes: 16-byte beats."""
    engine = replace(
        engine_of("sim4", "runtime"), channels=channels, lanes=16, resident_beats=4096, parameter_words=1024
    )
    return engine if mode == "runtime" else build(engine, mode)


ENGINES = {
    "narrow2-partial-kv": lambda: _narrow(2, "partial-kv"),
    "narrow6-sparse-gather": lambda: _narrow(6, "sparse-gather"),
    "narrow8-resident-dense": lambda: _narrow(8, "resident-dense"),
    "narrow4-resident-kv": lambda: _narrow(4, "resident-kv"),
}
PRESETS = {
    "sim4": ("sim4", "runtime"),
    "sim8": ("sim8", "runtime"),
    "sim2": ("sim2", "runtime"),
    "sim4-partial-kv": ("sim4", "partial-kv"),
}
NAMES = (*PRESETS, *ENGINES)


def obtain(name: str, jobs: int = 1) -> KernelInfo:
    """Kernel `name` with its simulator; builds what the cache does not have."""
    kernel = obtain_kernel(*PRESETS[name], CACHE) if name in PRESETS else obtain_engine(
        ENGINES[name](), CACHE
    )
    folder = read_kernel(kernel.manifest)
    build_model(folder.sources, folder.engine, MODELS, optimise=OPTIMISE, jobs=jobs)
    return kernel


class Kernels:
    """Builds the wanted kernels beside the tests, the first wanted first."""

    def __init__(self, wanted: list[str], say):
        self._say = say
        workers = max(1, min(os.cpu_count() or 1, len(wanted)))
        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        jobs = max(1, (os.cpu_count() or 1) // workers)
        self._futures: dict[str, Future] = {
            name: self._pool.submit(obtain, name, jobs) for name in wanted
        }

    def __call__(self, name: str) -> KernelInfo:
        future = self._futures[name]
        if not future.done():
            start = time.monotonic()
            self._say(f"kernel {name}: generating and compiling ...")
            future.result()
            self._say(f"kernel {name}: ready, waited {time.monotonic() - start:.0f} s")
        return future.result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
