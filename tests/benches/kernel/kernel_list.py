"""The kernels of these tests.

`NAMES` is the whole list: at most eight are ever built, and those whose tests are not `slow` stay few. A
kernel is generated and compiled once per content; the cache is in the repository's build folder.
"""

from dataclasses import replace

from symlight.host.device.kernels import KernelInfo, engine_of, obtain_engine, obtain_kernel
from symlight.host.device.machine import Progress, silent
from symlight.hw.config import Engine, build
from symlight.sim.build import build_model
from symlight.sim.manifest import read_kernel
from tests.benches.places import CACHE

MODELS = CACHE / "models"
OPTIMISE = "-O1"  # half the compile time for a tenth of the speed


def narrow(channels: int, mode: str, **more) -> Engine:
    """Half the lanes: 16-byte beats."""
    engine = replace(
        engine_of("sim4", "runtime"),
        channels=channels,
        lanes=16,
        resident_beats=4096,
        parameter_words=1024,
        **more,
    )
    return engine if mode == "runtime" else build(engine, mode)


ENGINES = {
    # Preset `mid` fits this one: the cycle budget is guarded on it.
    "narrow8-partial-kv": lambda: narrow(8, "partial-kv", width_words=16),
    "narrow6-sparse-gather": lambda: narrow(6, "sparse-gather"),
    "narrow2-resident-dense": lambda: narrow(2, "resident-dense"),
    "narrow4-resident-kv": lambda: narrow(4, "resident-kv"),
}
PRESETS = {
    "sim4": ("sim4", "runtime"),
    "sim8": ("sim8", "runtime"),
    "sim2": ("sim2", "runtime"),
    "sim4-partial-kv": ("sim4", "partial-kv"),
}
NAMES = (*PRESETS, *ENGINES)


def obtain(name: str, jobs: int = 1, progress: Progress = silent) -> KernelInfo:
    """Kernel `name` with its simulator; builds what the cache does not have, with so many compilers at a
    time."""
    if name in PRESETS:
        kernel = obtain_kernel(*PRESETS[name], CACHE, progress)
    else:
        kernel = obtain_engine(ENGINES[name](), CACHE, progress)
    folder = read_kernel(kernel.manifest)
    build_model(folder.sources, folder.engine, MODELS, optimise=OPTIMISE, jobs=jobs, progress=progress)
    return kernel
