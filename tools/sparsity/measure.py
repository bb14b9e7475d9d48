"""What a package of the sweep costs: cycles of a decode pass on the simulated kernel beside the estimate, and
tokens a second of the CPU engine."""

from pathlib import Path
from statistics import mean

import numpy as np

from symlight.base.optional import present
from symlight.cpu.engine import Engine, Feed, Session, Want
from symlight.cpu.weights import Weights
from symlight.host.bench.simulation import BenchSettings, bench_package, prompt_ids
from symlight.host.commands.estimate import Densities, densities_of
from symlight.host.device.kernels import engine_of
from symlight.host.measure.profile import profile
from symlight.model.package import Package
from symlight.model.reference import Reference
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory

PROMPT, NEW = 16, 64


def estimated(package: Package, card: str, build: str) -> dict:
    """Cycles and bytes of a decode pass by the estimate, for the densities of the passes of `simulated`."""
    engine = engine_of(card, build)
    settings = BenchSettings(card=card, build=build)
    densities = decode_densities(package, settings)
    question = Question(
        engine=engine,
        shape=package.shape,
        memory=Memory(clock_mhz=engine.clock_mhz),
        densities=densities.sites,
        out=densities.out,
        head=densities.head,
        prefix=settings.prefix,
        new_tokens=settings.new_tokens,
    )
    found = ask(question)
    return {"estimated_cycles": found["decode_cycles"], "estimated_bytes": found["bytes_read"]}


def decode_densities(package: Package, settings: BenchSettings) -> Densities:
    """Of the passes whose input token was generated: random prompts and written text have other densities."""
    reference = Reference(package.model)
    *first, last = prompt_ids(package, settings)
    for token in first:
        reference.ingest(token)
    passes = [reference.ingest(last, True)]
    for _ in range(settings.new_tokens - 1):
        passes.append(reference.ingest(present(passes[-1].token), True))
    return densities_of(package.model, passes[1:])


def simulated(package: Package, card: str, build: str, cache: Path | None, console) -> dict:
    """Cycles and bytes of a decode pass on the simulated kernel, compared with the reference bit for bit."""
    settings = BenchSettings(card=card, build=build)
    stages: set[str] = set()

    def say(stage: str, done: int, total: int) -> None:
        if stage not in stages:
            stages.add(stage)
            console.print(f"{package.meta.name}: {stage}", highlight=False)

    found = bench_package(package, settings, cache, progress=say)
    return {
        "bit_exact": found["bit_exact"],
        # the mean, since the estimate knows the mean densities of the same passes
        "decode_cycles": round(mean(cycles for kind, cycles in found["pass_cycles"] if kind == "decode")),
        "decode_bytes": round(sum(found["bytes_read"].values())),
    }


def on_cpu(package: Package) -> dict:
    """Decode tokens a second of one thread, the median of NEW passes."""
    prompt = np.random.default_rng(0).integers(0, package.shape.vocab, PROMPT).tolist()
    with Engine(Weights.pack(package.model), 1) as engine:
        engine.run([Feed(Session.new(engine.shape), prompt, Want.LAST)])
        found = profile(engine, prompt, NEW).to_json()
    return {
        "cpu_tokens_a_second": round(found["decode_tokens_a_second"]),
        "cpu_bytes": found["bytes_a_token"],
    }
