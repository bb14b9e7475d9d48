"""`symlight project`: the analytic model of event-driven hardware beside our kernel's estimate."""

from typing import Any

import click
import numpy as np

from symlight.base.errors import UserError
from symlight.hw.config import BUILDS
from symlight.model.config import ModelShape
from symlight.model.projection import (
    Projection,
    block_projections,
    generate_gain,
    head_projections,
    mac_density,
    prefill_gain,
    read_platform,
)
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory

from ..device.fitting import layout_on
from ..device.kernels import engine_of
from ..terminal.console import stderr, waiting
from ..terminal.options import FiniteRange, card_option, shape_option
from ..terminal.results import print_json
from .estimate import Densities, model_and_densities

DENSE, EVENT = "resident-dense", "partial-kv"
SHARE = FiniteRange(0, 1)


def kernel_comparison(card: str, shape: ModelShape, densities: Densities) -> dict:
    """Decode passes by the estimate, with every row and with active rows, and what r alone would say."""
    assert {DENSE, EVENT} <= set(BUILDS)
    cycles = {}
    for build in (DENSE, EVENT):
        engine = engine_of(card, build)
        layout_on(engine, shape)
        question = Question(
            engine=engine,
            shape=shape,
            memory=Memory(clock_mhz=engine.clock_mhz),
            densities=densities.sites,
            out=densities.out,
            head=densities.head,
        )
        cycles[build] = ask(question)["decode_cycles"]
    matrices = [one for block in blocks(shape, densities) for one in block]
    density = mac_density([*matrices, *head_projections(shape, densities.head or (1.0, 1.0))])
    linear = cycles[DENSE] * density
    return {
        "card": card,
        "mac_density_with_head": density,
        "decode_cycles": cycles,
        "speedup": cycles[DENSE] / cycles[EVENT],
        "linear_cycles": round(linear),
        "linear_off_by": linear / cycles[EVENT] - 1,
    }


def blocks(shape: ModelShape, densities: Densities) -> list[list[Projection]]:
    """The matrices of every block."""
    out = np.ones(shape.layers) if densities.out is None else densities.out
    return [
        block_projections(shape, layer, float(share))
        for layer, share in zip(densities.sites, out, strict=True)
    ]


@click.command()
@shape_option("194m")
@card_option("u50c")
@click.option("--platform", default="loihi2", show_default=True, metavar="NAME|FILE.json")
@click.option("--density", type=FiniteRange(0, 1, min_open=True, max_open=True), metavar="D",
              help="Average density of events; default: the package's, 0.24 for a preset.")  # fmt: skip
@click.option("--r-avg", type=SHARE, metavar="R", help="Mean MAC density, instead of a model's.")
@click.option("--r-max", type=SHARE, metavar="R", help="MAC density of the densest block.")
@click.option("--rho-avg", type=SHARE, metavar="P", help="Mean share of packets between chips.")
@click.option("--rho-max", type=SHARE, metavar="P", help="The same for the densest block.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def project(
    model: str, card: str, platform: str, density: float | None, r_avg: float | None, r_max: float | None,
    rho_avg: float | None, rho_max: float | None, as_json: bool,
):  # fmt: skip
    """Project what sparse activations gain on event-driven hardware (docs/sparsity.md).

    With the four densities: what the paper's equations 11 and 12 say for them. Without: for the densities of
    a model, and beside them the estimate of our kernel.
    """
    chosen = read_platform(platform)
    if not (r_avg is None and r_max is None and rho_avg is None and rho_max is None):
        if r_avg is None or r_max is None or rho_avg is None or rho_max is None:
            raise UserError("give --r-avg, --r-max, --rho-avg and --rho-max together, or none of them")
        result: dict[str, Any] = {  # of JSON
            "platform": chosen.name,
            "generate": generate_gain(chosen, [r_avg], [rho_avg]).to_json(),
            "prefill": prefill_gain(chosen, [r_max], [rho_max]).to_json(),
        }
    else:
        with waiting(stderr(), f"project {model}"):
            shape, densities = model_and_densities(model, density)
            work = [mac_density(block) for block in blocks(shape, densities)]
            packets = [float(layer[0]) for layer in densities.sites]  # the residual stream's events enter
            result = {
                "platform": chosen.name,
                "generate": generate_gain(chosen, work, packets).to_json(),
                "prefill": prefill_gain(chosen, work, packets).to_json(),
                "kernel": kernel_comparison(card, shape, densities),
            }
    if as_json:
        print_json(result)
        return
    click.echo(f"projected, not measured; dense {chosen.name}: {chosen.source}")
    for mode in ("generate", "prefill"):
        one = result[mode]
        click.echo(
            f"{mode}: r {one['density']:.3f}, packets {one['packets']:.3f}: {one['speedup']:.2f} x, "
            f"{one['rate']:,.1f} tokens/s, {one['energy']:.2f} mJ a token"
        )
    if kernel := result.get("kernel"):
        cycles = kernel["decode_cycles"]
        click.echo(
            f"our kernel on {card}, estimated: {cycles[DENSE]:,} cycles with every row, {cycles[EVENT]:,} "
            f"with active rows: {kernel['speedup']:.2f} x; cycles in proportion to MACs would be "
            f"{kernel['linear_cycles']:,} ({kernel['linear_off_by']:+.1%})"
        )
