"""The command `bitstream`: an open board's bitstream, from Python to a .bit file."""

from pathlib import Path

import click

from symlight.base.files import check_folder
from symlight.hw.board.board import BOARDS
from symlight.hw.board.board import board as board_called

from ..device.fitting import layout_on
from ..device.packages import named_shape
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, SHAPES


@click.command()
@click.option(
    "--board",
    type=click.Choice(list(BOARDS)),
    default="ulx3s-85f",
    show_default=True,
    help="Board that the bitstream is for.",
)
@click.option(
    "--model",
    default="demo",
    show_default=True,
    metavar="MODEL",
    help=f"Model whose memory map the manifest carries: {SHAPES}.",
)
@click.option(
    "--seed", type=click.IntRange(min=1), help="Seed of place and route; default: the released one."
)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder to write.")
def bitstream(board: str, model: str, seed: int | None, out: Path):
    """Build the bitstream of an open board with yosys, nextpnr and ecppack."""
    # Slow to import, and needed only here.
    from symlight.bitstreams.board.build import BITSTREAM, MANIFEST, build_bitstream
    from symlight.bitstreams.board.reports import fullest

    target = board_called(board)
    shape, name = named_shape(model)
    layout_on(target.engine, shape)  # refuse what is wrong before the long part
    check_folder(out)
    with ProgressView(stderr()) as progress:
        manifest = build_bitstream(target, shape, name, out, seed=seed or target.seed, progress=progress)
    result = manifest["board"]["result"]
    for clock, reached in result["clocks"].items():
        click.echo(f"{clock}: {reached['mhz']:.1f} MHz reached, {reached['wanted_mhz']:.1f} MHz used")
    kind, share = fullest(result)
    click.echo(f"fullest: {kind} {share:.1%}; build {manifest['build_id']}")
    for file in (out / BITSTREAM, out / MANIFEST):
        click.echo(str(file))
