"""`symlight estimate`: cycles of a pass without a simulation, and what they would be with other sizes, clocks
and densities.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.hw.config import Engine
from symlight.model.config import OPTIONAL_SITES, ModelShape
from symlight.model.reference import SITES, PassResult, Reference
from symlight.model.synthetic import layer_targets
from symlight.model.weights import IntegerModel
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory

from ..bench import paper
from ..device.fitting import layout_on
from ..device.kernels import engine_of
from ..device.packages import is_shipped, named_shape, open_package
from ..terminal.console import stderr, stdout, waiting
from ..terminal.options import FiniteRange, density_by_site, shape_option, workload_options
from ..terminal.results import print_json
from ..terminal.turn_report import phase_table, print_table

DENSITY = 0.24  # of a model without a package
MEASURED_PASSES = 24  # of the reference, for the densities of a package


def resized(engine: Engine, channels: int | None, lanes: int | None) -> Engine:
    """`engine` with other ports; its buffers hold as many bytes or more in fewer or narrower ones."""
    channels, lanes = channels or engine.channels, lanes or engine.lanes
    if (channels, lanes) == (engine.channels, engine.lanes):
        return engine
    ports = _power(engine.channels * engine.lanes / (channels * lanes))
    words = _power(engine.lanes / lanes)
    return replace(
        engine,
        channels=channels,
        lanes=lanes,
        kv_beats=engine.kv_beats * ports,
        accumulators=engine.accumulators * ports,
        query_words=engine.query_words * ports,
        vector_words=engine.vector_words * words,
        width_words=engine.width_words * words,
        state_words=engine.state_words * words,
        parameter_words=engine.parameter_words * words,
    )


def _power(factor: float) -> int:
    """The smallest power of two that is at least `factor`, and 1."""
    return 1 << max(0, math.ceil(math.log2(factor)))


def preset_densities(shape: ModelShape, density: float) -> np.ndarray:
    """[layers, 4]: as `symlight random-model` spreads a density over layers and sites."""
    if not 0 < density < 1:
        raise UserError(f"density is {density}; a number between 0 and 1 is required")
    return layer_targets(shape, density, np.random.default_rng(0))


@dataclass(frozen=True)
class Densities:
    """Share of nonzero inputs: `sites` [layers, 4] by SITES; `out` [layers] of W_O's input and `head` of the
    head's a and g where these are event sites, else None."""

    sites: np.ndarray
    out: np.ndarray | None = None
    head: tuple[float, float] | None = None


def package_densities(name: str) -> tuple[ModelShape, Densities]:
    """Shape of a package, and the densities of the reference on random tokens."""
    model = open_package(name).model
    reference, rng = Reference(model), np.random.default_rng(0)
    tokens = rng.integers(0, model.shape.vocab, MEASURED_PASSES).tolist()
    return model.shape, densities_of(model, [reference.ingest(token, True) for token in tokens])


def densities_of(model: IntegerModel, passes: Sequence[PassResult]) -> Densities:
    """Densities of passes of a model, each with the head."""
    shape, sites, count = model.shape, model.event_sites, len(passes)
    inputs = np.array([shape.ffn if site == "down" else shape.width for site in SITES])
    out = np.where(
        [block.out_threshold for block in model.blocks],
        sum(one.out_active for one in passes) / (shape.width * count),
        1.0,
    )
    head = sum(np.array(present(one.head_active)) for one in passes)
    a, g = (head / (count * np.array([shape.width, shape.bottleneck]))).tolist()
    return Densities(
        sum(one.active for one in passes) / (inputs * count),
        out if "out" in sites else None,
        (a, g) if "head" in sites else None,
    )


def model_and_densities(
    name: str, density: float | None, sites: dict[str, float] | None = None
) -> tuple[ModelShape, Densities]:
    """A package by path or name, else a preset or a file; `density` replaces what the package has, and
    `sites` single sites (`head`: a; `head_g`: g, all of it unless it is given)."""
    sites = dict(sites or {})
    if density is None and (Path(name).is_dir() or is_shipped(name)):
        shape, found = package_densities(name)
    else:
        shape, _ = named_shape(name)
        found = Densities(preset_densities(shape, DENSITY if density is None else density))
    unknown = set(sites) - {*SITES, *OPTIONAL_SITES, "head_g"}
    if unknown or not all(0 < share <= 1 for share in sites.values()):
        raise UserError(
            f"--density-site has {sites}; give densities in 0..1, above 0, of "
            f"{', '.join((*SITES, *OPTIONAL_SITES))} or head_g"
        )
    by_layer = found.sites.copy()
    for index, site in enumerate(SITES):
        by_layer[:, index] = sites.get(site, by_layer[:, index])
    out = np.full(shape.layers, sites["out"]) if "out" in sites else found.out
    head = (sites["head"], sites.get("head_g", 1.0)) if "head" in sites else found.head
    return shape, Densities(by_layer, out, head)


@click.command()
@shape_option("194m")
@workload_options
@click.option(
    "--prefix", type=click.IntRange(min=1), default=32, show_default=True, metavar="P", help="Prompt tokens."
)
@click.option(
    "--new-tokens",
    type=click.IntRange(min=2),
    default=8,
    show_default=True,
    metavar="N",
    help="Tokens to generate.",
)
@click.option(
    "--density",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    metavar="D",
    help="Average density of events; default: the package's, 0.24 for a preset.",
)
@click.option(
    "--density-site",
    metavar="SITE=D,...",
    default="",
    help="Densities of single sites: qkv, decay, up, down, out, head (its input a), head_g (its input g).",
)
@click.option("--clock", type=click.IntRange(min=1), metavar="MHZ", help="Kernel clock; default: the card's.")
@click.option(
    "--channels", type=click.IntRange(1, 32), metavar="K", help="Memory ports; default: the card's."
)
@click.option(
    "--width",
    type=click.Choice(["16", "32", "64"]),
    metavar="BYTES",
    help="Bytes of a port = lanes of a channel.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def estimate(
    model: str,
    card: str,
    build: str,
    prefix: int,
    new_tokens: int,
    density: float | None,
    density_site: str,
    clock: int | None,
    channels: int | None,
    width: str | None,
    hbm: str,
    max_bursts: int,
    max_bytes: int,
    as_json: bool,
):
    """Estimate the cycles of a pass, without a simulation.

    The estimate puts the design's own latencies, the layout and the memory's timing together; it stands
    within 3 % of the simulation in the tests that compare both.
    """
    console = stderr()
    engine = resized(engine_of(card, build), channels, None if width is None else int(width))
    memory = Memory(clock_mhz=clock or engine.clock_mhz, hbm=hbm, bursts=max_bursts, bytes=max_bytes)
    with waiting(console, f"estimate {model}"):
        shape, densities = model_and_densities(model, density, density_by_site(density_site))
        layout_on(engine, shape)
        question = Question(
            engine=engine,
            shape=shape,
            memory=memory,
            densities=densities.sites,
            out=densities.out,
            head=densities.head,
            prefix=prefix,
            new_tokens=new_tokens,
        )
        result = {
            "model": model,
            "card": card,
            "build": build,
            "prefix": prefix,
            "channels": engine.channels,
            "lanes": engine.lanes,
        }
        result |= ask(question)
    if as_json:
        print_json(result)
    else:
        _print(stdout(), result)


def _print(console, result: dict) -> None:
    table = phase_table("a decode pass, estimated", result["phases"], result["decode_cycles"])
    print_table(console, table, 1)
    lines = [
        f"decode pass: {result['decode_cycles']:,} cycles, {result['passes_per_second']:,.1f} passes/s"
        f" at {result['clock_mhz']} MHz",
        f"prompt pass without head: {result['prompt_cycles']:,} cycles",
        f"the ports carry data in {result['read_share_of_ports']:.1%} of their cycles; "
        f"{result['bytes_read']:,} bytes a pass",
    ]
    device, host = paper.device_cycles(result["build"]), paper.host_cycles(result["build"], result["prefix"])
    if result["model"] == "194m" and device:
        lines.append(
            f"the paper's build of this kind: {device:,} cycles (device, prefix not stated)"
            + (f", {host:,} (host-observed)" if host else "")
        )
    for line in lines:
        console.print(line, highlight=False)
