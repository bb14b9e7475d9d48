"""`symlight random-model`: a package with random weights, for measurements."""

from pathlib import Path

import click

from symlight.model.config import PRESETS
from symlight.model.package import PackageMeta, save_package
from symlight.model.package_folder import check_place

from ...device.packages import named_shape
from ...terminal.console import stderr, waiting
from ...terminal.options import FiniteRange, density_by_site, force_option, out_option, shape_option


@click.command("random-model")
@shape_option("194m")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--density",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.24,
    show_default=True,
    help="Share of nonzero events, more than 0 and less than 1.",
)
@click.option(
    "--density-site",
    metavar="SITE=D,...",
    help="Densities of single sites: qkv, decay, up, down; with out and head, these inputs are event sites.",
)
@out_option
@force_option
def random_model_command(
    model: str, seed: int, density: float, density_site: str | None, out: Path, force: bool
):
    """Make a package with random weights.

    Its events have a given density: it is for measurements, not for text.
    """
    from symlight.model.synthetic import calibrated

    check_place(out, force=force)
    shape, title = named_shape(model)
    sites = density_by_site(density_site or "")
    with waiting(stderr(), f"random weights, shape {title}"):
        integers, measured = calibrated(shape, seed, density, sites)
        meta = PackageMeta(
            name=out.resolve().name,
            description=f"random weights, shape {title}",
            synthetic=True,
            provenance={
                "preset" if model in PRESETS else "shape": title,
                "seed": seed,
                "density": round(measured, 4),
            }
            | ({"density_by_site": sites} if sites else {}),
        )
        save_package(out, integers, meta)
    click.echo(str(out))


@click.command("synthesize", hidden=True, params=random_model_command.params)
@click.pass_context
def old_name(context: click.Context, /, **options):
    """The old name of `random-model`."""
    click.echo("symlight: `synthesize` is now called `random-model`", err=True)
    context.invoke(random_model_command, **options)
