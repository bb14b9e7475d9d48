"""A benchmark on the simulated card: settings, the measurement at every clock, what a result says of
itself."""

import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

import symlight
from symlight.base.provenance import commit
from symlight.hw import config
from symlight.model.package import Package
from symlight.sim.estimate.memory import Memory

from ..device.fitting import layout_on
from ..device.golden import golden_machine
from ..device.kernels import KernelInfo, obtain_kernel
from ..device.machine import Progress, silent
from ..device.opening import DeviceOptions
from .bench_report import bench_json
from .measure import Measurement, ReferenceRun, measure

STATES = ("ingest", "load")


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """What is measured. `clock`: MHz, None is the card's own; `also_clocks`: measured again at these."""

    card: str = "u50c"
    build: str = "partial-kv"
    prefix: int = 32
    new_tokens: int = 8
    hbm: str = Memory.hbm
    max_bursts: int = Memory.bursts
    max_bytes: int = Memory.bytes
    hbm_set: tuple[tuple[str, int], ...] = ()  # further parameters of sim/harness/hbm.h
    clock: int | None = None
    also_clocks: tuple[int, ...] = ()
    state: str = "ingest"
    seed: int = 1  # refresh phases of the memories
    prompt_seed: int = 1  # random prompt ids
    autonomous: bool = False

    def clocks(self) -> list[int]:
        """Clocks to measure at, the main one first."""
        main = self.clock or config.card(self.card).clock_mhz
        return list(dict.fromkeys((main, *self.also_clocks)))

    def simulation(self, clock: int) -> dict:
        """Of the simulated card (`sim.options.SimOptions`); without the design's assertions, which only cost
        speed here."""
        return {
            "bursts": self.max_bursts,
            "bytes": self.max_bytes,
            "clock_mhz": clock,
            "assertions": False,
            "hbm_settings": dict(self.hbm_set),
        }


@dataclass
class BuildClock:
    """A progress callback that passes everything on and notes how long each stage of a build took."""

    progress: Progress = silent
    seconds: dict[str, float] = field(default_factory=dict)
    _started: dict[str, float] = field(default_factory=dict)

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        self._started.setdefault(stage, now)
        if stage in ("generate", "verilate", "compile"):
            self.seconds[stage] = round(now - self._started[stage], 1)
        self.progress(stage, done, total)


def prompt_ids(package: Package, settings: BenchSettings) -> list[int]:
    """Random ids: a synthetic model has no text, and a measurement needs none."""
    rng = np.random.default_rng(settings.prompt_seed)
    ids: list[int] = rng.integers(0, package.shape.vocab, settings.prefix).tolist()
    return ids


def about(package: Package, settings: BenchSettings, kernel: KernelInfo) -> dict:
    """What a result says about itself; two runs with equal values give equal cycles."""
    values = asdict(settings) | {"clock": settings.clocks()[0], "also_clocks": settings.clocks()[1:]}
    if not settings.hbm_set:
        del values["hbm_set"]
    return {
        "model": package.meta.name,
        "synthetic": package.meta.synthetic,
        "provenance": package.meta.provenance,
        "package": package.digest,
        "build_id": f"{kernel.build_id:032x}",
        **values,
    }


def bench_package(
    package: Package,
    settings: BenchSettings,
    cache: Path | None,
    *,
    expected: ReferenceRun | None = None,
    threads: int | None = None,
    progress: Progress = silent,
) -> dict:
    """Measure `package` at every clock of `settings`; `expected` saves computing the reference again.

    `threads` simulate the card: the cycles are the same with any number.
    """
    clock = BuildClock(progress)
    kernel = obtain_kernel(settings.card, settings.build, cache, clock)
    layout = layout_on(kernel.engine, package.shape)
    expected = expected or reference_run(package, settings, cache, progress)
    options = DeviceOptions(
        card=settings.card,
        build=settings.build,
        hbm=settings.hbm,
        refresh_seed=settings.seed,
        cache=cache,
        time_limit=float("inf"),
    )
    measured: list[Measurement] = []
    for i, mhz in enumerate(settings.clocks()):
        here = replace(options, simulation=settings.simulation(mhz) | {"threads": threads})
        one = measure(
            package.model,
            expected,
            here,
            clock_mhz=mhz,
            autonomous=settings.autonomous and not i,
            progress=clock,
        )
        measured.append(one)
        if one.difference is not None:
            break
    facts = about(package, settings, kernel) | {
        "commit": commit(),
        "version": symlight.__version__,
        "compared_with": expected.compared_with,
    }
    return bench_json(measured, layout, facts) | {"build_seconds": clock.seconds or None}


def reference_run(
    package: Package, settings: BenchSettings, cache: Path | None, progress: Progress = silent
) -> ReferenceRun:
    """What a benchmark is compared with; it depends on the model and the prompt only."""
    golden = golden_machine(package, DeviceOptions(device="sim", cache=cache), progress)
    try:
        return ReferenceRun(
            package.model,
            prompt_ids(package, settings),
            settings.new_tokens,
            ingest=settings.state == "ingest",
            golden=golden,
            progress=progress,
        )
    finally:
        golden.close()
