"""`symlight sensitivity`: what it costs to drop inputs, by matrix and by layer."""

from pathlib import Path

import click
import numpy as np
from rich.table import Table

from symlight.base.errors import UserError
from symlight.model.text import from_bytes

from ..device.packages import open_package
from ..measure.sensitivity import draw, sensitivity
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, FiniteRange
from ..terminal.plain import PlainConsole
from ..terminal.results import print_json
from ..terminal.turn_report import print_table


@click.command("sensitivity")
@click.argument("package")
@click.argument("text", type=PATH, metavar="TEXT")
@click.option(
    "--keep",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Of the nonzero inputs of a matrix, the share that stays: the largest.",
)
@click.option("--tokens", type=click.IntRange(min=2), metavar="N", help="Of the text; default: all.")
@click.option("--sequence", type=click.IntRange(min=2), default=256, show_default=True, metavar="N")
@click.option("--plot", type=PATH, metavar="FILE", help="Draw it, too (PNG or SVG; extra `plots`).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def sensitivity_command(
    package: str, text: Path, keep: float, tokens: int | None, sequence: int, plot: Path | None, as_json: bool
):
    """Drop inputs of PACKAGE by force: what the loss on the file TEXT gains, for the work that it saves."""
    opened = open_package(package)
    try:
        content = from_bytes(text.read_bytes(), f"the text {text}")
    except OSError as error:
        raise UserError(f"the text {text} cannot be read: {error.strerror}") from error
    ids = np.array(opened.encode(content)[:tokens], np.int64)
    with ProgressView(stderr()) as progress:
        found = sensitivity(opened, ids, keep=keep, sequence=sequence, progress=progress)
    if plot is not None:
        try:
            draw(found, str(plot))
        except (OSError, ValueError) as error:
            raise UserError(f"the plot cannot be written to {plot}: {error}") from error
    if as_json:
        print_json(
            {"package": str(opened.path), "digest": opened.digest, "text": str(text)} | found.to_json()
        )
        return
    console = PlainConsole()
    for title, costs in (("by matrix, in all layers", found.matrices), ("by layer", found.layers)):
        table = Table("place", "MACs saved", "loss increase", "increase over share", title=title)
        for cost in costs:
            ratio = "-" if cost.cost is None else f"{cost.cost:.3f}"
            table.add_row(cost.place, f"{cost.saved:.2%}", f"{cost.loss_increase:+.4f}", ratio)
        print_table(console, table, 0)
    console.print(
        f"{found.predictions:,} predictions, {found.loss:.4f} nats a token with all inputs; the largest "
        f"{keep:.0%} of the nonzero inputs stay"
    )
