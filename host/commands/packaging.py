"""Commands around a bitstream: package a kernel, seal what was built of it, rewrite committed manifests."""

import json
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import check_folder, write_whole
from symlight.base.optional import present
from symlight.hw.compiler.manifest import PROBE
from symlight.hw.config import BUILDS
from symlight.model.config import PRESETS

from ..device.fitting import layout_on
from ..device.kernels import MANIFEST, engine_of, obtain_kernel
from ..device.packages import named_shape
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, SHAPES, build_option, cache_option, card_option, refuse_given

KERNELS = ("accelerator", PROBE)
# The manifests that a source tree carries: card -> the model that its packages are made for.
COMMITTED = {"u50c16": "194m", "u50c28": "194m", "u50c": "194m", "sim4": "demo"}


@click.command()
@click.option(
    "--model",
    default="194m",
    show_default=True,
    metavar="MODEL",
    help=f"Model whose memory map the manifest carries: {SHAPES}.",
)
@click.option(
    "--kernel",
    type=click.Choice(KERNELS),
    default=KERNELS[0],
    show_default=True,
    help="The accelerator, or a small kernel that measures the card's memory (docs/probe.md).",
)
@card_option("u50c")
@build_option
@click.option("--out", type=PATH, metavar="DIR", help="Folder to write.")
@click.option(
    "--seal",
    "sealed",
    type=PATH,
    metavar="XCLBIN",
    help="Instead: write into the manifest beside XCLBIN what was built.",
)
@cache_option
def package(
    model: str,
    kernel: str,
    card: str,
    build: str,
    out: Path | None,
    sealed: Path | None,
    cache: Path | None,
):
    """Write all that Vivado and v++ need to build a bitstream, or seal a bitstream that they have built."""
    # Slow to import, and needed only here; so below.
    from symlight.bitstreams.package import write_package
    from symlight.bitstreams.seal import seal

    if (out is None) == (sealed is None):
        raise UserError(
            "give either --out DIR, to write a package, or --seal FILE.xclbin, to seal what was built of one"
        )
    if sealed is not None:
        refuse_given(["model", "kernel", "card", "build"], "with --seal: the manifest says what was built")
        click.echo(json.dumps(seal(sealed)["result"], indent=2))
        return
    shape, name = None, ""
    if kernel == PROBE:
        refuse_given(["model", "build"], "with --kernel probe: it runs no model")
        build = PROBE
    else:
        shape, name = named_shape(model)
        layout_on(engine_of(card, build), shape)  # refuse what is wrong before the long part
    out = present(out)
    check_folder(out)
    with ProgressView(stderr()) as progress:
        found = obtain_kernel(card, build, cache, progress)
    write_package(found.manifest.parent, out, shape, name)
    for file in sorted(out.iterdir()):
        click.echo(str(file))


@click.command()
@click.option(
    "--out",
    type=PATH,
    required=True,
    metavar="DIR",
    help="Folder of the manifests: `bitstreams` of a source tree.",
)
@click.option(
    "--card", type=click.Choice(list(COMMITTED)), multiple=True, help="Only these cards; default: all."
)
@cache_option
def manifests(out: Path, card: tuple[str, ...], cache: Path | None):
    """Generate every kernel whose manifest a source tree carries, and write the manifests."""
    check_folder(out)
    for name in card or COMMITTED:
        for build in BUILDS:
            with ProgressView(stderr()) as progress:
                text = committed_manifest(name, build, cache, progress)
            folder = out / f"{name}-{build}"
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / MANIFEST, text)
            click.echo(f"{folder / MANIFEST} {json.loads(text)['build_id']}")


def committed_manifest(card: str, build: str, cache: Path | None, progress) -> str:
    """The text of the manifest of one kernel, before anything was built from it."""
    from symlight.bitstreams.package import manifest_text, package_manifest

    kernel = obtain_kernel(card, build, cache, progress)
    model = COMMITTED[card]
    return manifest_text(package_manifest(json.loads(kernel.manifest.read_text()), PRESETS[model], model))
