"""`symlight bench`: cycles, bytes and port utilisation of a model's passes, bit-exact against the
reference."""

import json
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import click
import numpy as np

import symlight
from symlight.bitstreams.provenance import commit
from symlight.hw import config
from symlight.hw.layout import Layout
from symlight.model.package import Package
from symlight.sim.estimate.memory import Memory

from .bench_measure import Measurement, ReferenceRun, measure
from .bench_report import bench_json, print_bench
from .console import ProgressView, stderr
from .device import DeviceOptions
from .kernels import KernelInfo, obtain_kernel
from .machine import Progress, silent
from .models import open_package
from .options import PATH, ListCommand, cache_option, model_option, threads_option, workload_options
from .protocol_bench import bench_in_rounds, protocol_options, take_protocol
from .results import write_json
from .verify import VerificationError

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
        return {"bursts": self.max_bursts, "bytes": self.max_bytes, "clock_mhz": clock, "assertions": False}


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
    return (
        np.random.default_rng(settings.prompt_seed).integers(0, package.shape.vocab, settings.prefix).tolist()
    )


def about(package: Package, settings: BenchSettings, kernel: KernelInfo) -> dict:
    """What a result says about itself; two runs with equal values give equal cycles."""
    values = asdict(settings) | {"clock": settings.clocks()[0], "also_clocks": settings.clocks()[1:]}
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
    cache: Path,
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
    layout = Layout(kernel.engine, package.shape)
    expected = expected or reference_run(package, settings, progress)
    options = DeviceOptions(
        card=settings.card,
        build=settings.build,
        hbm=settings.hbm,
        seed=settings.seed,
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
    facts = about(package, settings, kernel) | {"commit": commit(), "version": symlight.__version__}
    return bench_json(measured, layout, facts) | {"build_seconds": clock.seconds or None}


def reference_run(package: Package, settings: BenchSettings, progress: Progress = silent) -> ReferenceRun:
    """The reference's part of a benchmark; it depends on the model and the prompt only."""
    prompt = prompt_ids(package, settings)
    return ReferenceRun(
        package.model, prompt, settings.new_tokens, ingest=settings.state == "ingest", progress=progress
    )


@click.command(cls=ListCommand)
@model_option
@protocol_options
@workload_options
@click.option(
    "--prefix",
    "prefixes",
    type=click.IntRange(min=2),
    multiple=True,
    metavar="P...",
    help=f"Prompt tokens; several are measured in rounds.  [default: {BenchSettings.prefix}]",
)
@click.option(
    "--new-tokens",
    type=click.IntRange(min=2),
    metavar="N",
    help=f"Tokens to generate.  [default: {BenchSettings.new_tokens}]",
)
@click.option(
    "--clock",
    type=click.IntRange(min=1),
    metavar="MHZ",
    help="Kernel clock against the same memory; default: the card's.",
)
@click.option(
    "--also-clock",
    "also_clocks",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="MHZ",
    help="Measure at this clock too.",
)
@click.option(
    "--state",
    type=click.Choice(STATES),
    default="ingest",
    show_default=True,
    help="Ingest the prompt on the device, or load the reference's state behind all but its last token.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Refresh phases of the memories.")
@click.option(
    "--prompt-seed", type=click.IntRange(min=0), default=1, show_default=True, help="Random prompt ids."
)
@click.option("--autonomous", is_flag=True, help="Measure the continuation in a single run, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--out", type=PATH, metavar="FILE", help="Write that object to a file.")
@threads_option
@cache_option
def bench(model: str, cache: Path, as_json: bool, out: Path | None, threads: int | None, **values):
    """Measure a model: its passes on the simulated card, or throughput and energy of requests in rounds.

    On the simulated card every pass is measured by itself and compared with the integer reference; PREFIX
    random prompt tokens, then NEW-TOKENS generated ones. A decode pass is one whose input token was
    generated.

    On a card (--device xrt:0), and with --rounds, --seconds, --idle-seconds, --verify or several prefixes:
    the measuring protocol of docs/measuring.md, with prefixes 32 128 256 480 and 128 new tokens unless told
    otherwise.
    """
    console = stderr()
    package = open_package(model)
    in_rounds = take_protocol(values)
    settings = BenchSettings(**_given(values))
    if in_rounds is not None:
        options = DeviceOptions(
            device=in_rounds.device,
            xclbin=in_rounds.xclbin,
            card=settings.card,
            build=settings.build,
            hbm=settings.hbm,
            seed=settings.seed,
            cache=cache,
            simulation=settings.simulation(settings.clocks()[0]) | {"threads": threads},
        )
        bench_in_rounds(package, options, in_rounds, out=out, as_json=as_json, console=console)
        return
    with ProgressView(console) as progress:
        result = bench_package(package, settings, cache, threads=threads, progress=progress)
    if out is not None:
        write_json(out, result)
    if as_json:
        click.echo(json.dumps(result))
    else:
        print_bench(console, result, config.card(settings.card))
    if not result["bit_exact"]:
        raise VerificationError(result["difference"] or "at another clock the results differ")


def _given(values: dict) -> dict:
    """Settings of one benchmark: its one prefix, and the defaults of what was not said."""
    prefixes = values.pop("prefixes")
    if prefixes:
        values["prefix"] = prefixes[0]
    return {name: value for name, value in values.items() if value is not None}
