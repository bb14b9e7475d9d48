"""The cycle estimate is within 3 % of the simulation: builds, densities, prefixes, memories, clocks."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from symlight.hw import config
from symlight.hw.interface import Flag
from symlight.model.config import preset
from symlight.model.reference import SITES, Reference
from symlight.model.synthetic import random_model
from symlight.sim.estimate import latencies as stated
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory

TOLERANCE = 0.03
MODES = {"resident-dense": Flag.DENSE | Flag.FULL_KV, "sparse-gather": Flag.FULL_KV, "partial-kv": Flag(0)}


def measure(card, prefix: int, n_new: int) -> tuple[dict, dict]:
    """Mean cycles and densities of decode and of prompt passes, a pass a run."""
    shape = card.model.shape
    passes = {"prompt": [], "decode": []}
    for token in card.prompt(prefix):
        passes["prompt"].append(card.run([token], 0))
    card.run([], 1)
    passes["decode"] = [card.run([], 1) for _ in range(n_new - 1)]
    passes["prompt"] = passes["prompt"][1:]  # the first token only becomes pending
    inputs = np.array([shape.ffn if site == "down" else shape.width for site in SITES])
    densities = {
        kind: sum(one.active for one in found) / (inputs * len(found)) for kind, found in passes.items()
    }
    cycles = {
        kind: np.mean([one.cycles.prompt + one.cycles.decode for one in found])
        for kind, found in passes.items()
    }
    return cycles, densities


def optional_densities(card, prefix: int, n_new: int) -> dict[str, dict]:
    """`out` and `head` of a Question by kind of pass, as the reference counts them in the passes of
    `measure`."""
    model = card.model
    reference, shape = Reference(model), model.shape
    *first, last = card.prompt(prefix)
    passes = {"prompt": [reference.ingest(token) for token in first]}
    token = reference.ingest(last, True).token
    passes["decode"] = []
    for _ in range(n_new - 1):
        passes["decode"].append(reference.ingest(token, True))
        token = passes["decode"][-1].token
    found: dict[str, dict] = {}
    for kind, results in passes.items():
        found[kind] = {"out": None, "head": None}
        if "out" in model.event_sites:
            found[kind]["out"] = np.mean([one.out_active for one in results], axis=0) / shape.width
        if "head" in model.event_sites and kind == "decode":
            hidden = np.mean([one.head_active for one in results], axis=0)
            found[kind]["head"] = tuple(hidden / (shape.width, shape.bottleneck))
    return found


def question(card, densities, prefix: int, n_new: int, build: str, optional=None, **memory) -> Question:
    engine = card.layout.engine
    if engine.fixed_gather == "runtime":
        engine = replace(engine, **config.BUILDS[build])
    return Question(
        engine=engine,
        shape=card.model.shape,
        memory=Memory(**{"clock_mhz": engine.clock_mhz, **memory}),
        densities=densities,
        prefix=prefix,
        new_tokens=n_new,
        **(optional or {}),
    )


def check(card, prefix: int, n_new: int, build: str = "partial-kv", **memory) -> None:
    cycles, densities = measure(card, prefix, n_new)
    optional = optional_densities(card, prefix, n_new)
    for kind, measured in cycles.items():
        asked = question(card, densities[kind], prefix, n_new, build, optional[kind], **memory)
        found = ask(asked)[f"{kind}_cycles"]
        print(f"{build} {kind}: measured {measured:.0f}, estimated {found}, {found / measured - 1:+.2%}")
        assert abs(found / measured - 1) < TOLERANCE, kind


MEMORIES = {
    "ideal": (8, {"hbm": "ideal"}),
    "timed": (12, {"hbm": "timed"}),
    "long": (40, {"hbm": "timed"}),
    # Four refresh periods are as long as a short prompt pass here: many passes meet them at all phases.
    "300-mhz": (32, {"hbm": "timed", "clock_mhz": 300}),
    "lean": (8, {"hbm": "timed", "bursts": 32, "bytes": 2048}),
}


def cases(*lists, quick) -> list:
    """The product; only what is `quick` is not marked slow."""
    return [
        pytest.param(*case, marks=() if quick(*case) else (pytest.mark.slow,)) for case in product(*lists)
    ]


@pytest.mark.kernel("sim4")
@pytest.mark.parametrize(
    "build, memory",
    cases(MODES, MEMORIES, quick=lambda build, memory: build == "partial-kv" or memory == "timed"),
)
def test_demo_package(bench, demo, build, memory):
    prefix, options = MEMORIES[memory]
    check(bench(demo, flags=MODES[build], **options), prefix, 5, build, **options)


@pytest.mark.kernel("sim4")
@pytest.mark.parametrize(
    "density, hbm",
    cases(
        (0.02, 0.12, 0.5, 1.0),
        ("ideal", "timed"),
        quick=lambda density, hbm: density in (0.02, 1.0) and hbm == "timed",
    ),
)
def test_densities(bench, demo, density, hbm):
    check(bench(random_model(demo.shape, 31, density), hbm=hbm), 6, 4, hbm=hbm)


@pytest.mark.kernel("narrow8-partial-kv")
@pytest.mark.parametrize(
    "prefix, hbm", cases((6, 40), ("ideal", "timed"), quick=lambda prefix, hbm: (prefix, hbm) == (6, "timed"))
)
def test_mid_size(bench, prefix, hbm):
    check(bench(random_model(preset("mid"), 32, 0.24), hbm=hbm), prefix, 4, hbm=hbm)


SITES_AT = {
    "out": {"out": 0.3},
    "head": {"head": 0.3},
    "both": {"out": 0.4, "head": 0.2},
    "few": {"out": 0.03, "head": 0.03},
}


@pytest.mark.kernel("sim4")
@pytest.mark.parametrize(
    "sites, hbm",
    cases(SITES_AT, ("ideal", "timed"), quick=lambda sites, hbm: (sites, hbm) == ("both", "timed")),
)
def test_optional_event_sites(bench, demo, sites, hbm):
    density = dict.fromkeys(SITES, 0.24) | SITES_AT[sites]
    check(bench(random_model(demo.shape, 33, density), hbm=hbm), 6, 6, hbm=hbm)


@pytest.mark.kernel("sim4")
def test_operation_by_operation(bench, demo):
    """With an ideal memory turnarounds are exact, and what is streamed is within some cycles per layer."""
    card = bench(demo, hbm="ideal")
    _, densities = measure(card, 8, 4)
    result = card.run([], 1)
    found = ask(question(card, densities["decode"], 8, 4, "partial-kv", hbm="ideal"))
    for phase, (stream, gap) in result.cycles.phases.items():
        assert found["phases"][phase]["hand_over"] == gap, phase
        if phase in ("out", "prior", "head", "embed", "control"):  # no events: exact
            assert found["phases"][phase]["stream"] == stream, phase


@pytest.mark.kernel("sim4")
def test_a_wrong_latency_is_noticed(bench, demo, monkeypatch):
    """The tolerance leaves no room for a design that is 12 cycles slower at every drain than it says."""
    real = stated.latencies(bench(demo).layout.engine)
    monkeypatch.setattr(
        "symlight.sim.estimate.passes.latencies", lambda engine: replace(real, drain=real.drain + 12)
    )
    with pytest.raises(AssertionError, match="prompt|decode"):
        check(bench(demo, hbm="ideal"), 8, 4, hbm="ideal")
