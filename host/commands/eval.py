"""`symlight eval`: how well a model predicts a text."""

from pathlib import Path

import click
from rich.table import Table

from symlight.base.errors import UserError
from symlight.base.files import read_bounded
from symlight.model.package import Package
from symlight.model.text import from_bytes

from ..device.opening import DeviceOptions, OpenedDevice
from ..device.packages import open_any
from ..measure.evaluation import evaluate
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, cache_option, device_option
from ..terminal.plain import PlainConsole
from ..terminal.results import print_json
from ..terminal.turn_report import print_table
from ..v1.measure import as_json_option, eval_v1

MOST_TEXT_BYTES = 1 << 30


@click.command("eval")
@click.argument("package")
@click.argument("text", type=PATH, metavar="TEXT")
@device_option("cpu")
@click.option(
    "--sequence",
    type=click.IntRange(min=2),
    default=512,
    show_default=True,
    metavar="N",
    help="Tokens of a piece; each piece is predicted from its own beginning.",
)
@click.option(
    "--float",
    "checkpoint",
    type=PATH,
    metavar="CHECKPOINT",
    help="Evaluate this float model, too, and say how often both choose the same token (V2; extra `train`).",
)
@click.option(
    "--record",
    type=PATH,
    metavar="FILE",
    help="Keep what is done in a file, and go on from it when it is there (V2).",
)
@cache_option
@as_json_option
def eval_command(
    package: str,
    text: Path,
    device: str,
    sequence: int,
    checkpoint: Path | None,
    record: Path | None,
    cache: Path,
    as_json: bool,
):
    """Perplexity, bits a byte and accuracy of PACKAGE on the file TEXT."""
    opened = open_any(package, lazy=True)
    try:
        content = from_bytes(read_bounded(text, MOST_TEXT_BYTES), f"the text {text}")
    except OSError as error:
        raise UserError(f"the text {text} cannot be read: {error.strerror}") from error
    if not isinstance(opened, Package):
        if checkpoint is not None or record is not None:
            raise UserError(
                "--float and --record work with packages of SymbolicLight V2 only; leave them out"
            )
        eval_v1(opened, content, device, cache, sequence, as_json)
        return
    if checkpoint is not None and not checkpoint.is_file():
        raise UserError(f"the float checkpoint {checkpoint} does not exist")
    tokens = opened.encode(content)
    with ProgressView(stderr()) as progress:
        with OpenedDevice(DeviceOptions(device=device, cache=cache), opened, progress) as machine:
            if not machine.features.logits:
                raise UserError(f"device {device!r} gives no logits; use --device cpu, or reference")
            found = evaluate(machine, opened, tokens, sequence, record, checkpoint, progress)
    about = {"package": str(opened.path), "digest": opened.digest, "device": device, "sequence": sequence}
    figures: dict = about | found.figures()
    if as_json:
        print_json(figures)
        return
    models = [name for name in ("float", "integer") if name in figures]
    title = f"{opened.meta.name}: {found.predictions:,} predictions of {found.bytes:,} bytes"
    table = Table("", *models, title=title)
    for name in figures["integer"]:
        table.add_row(name.replace("_", " "), *(f"{figures[model][name]:.4f}" for model in models))
    print_table(PlainConsole(), table, 1)
    if "greedy_agreement" in figures:
        click.echo(f"greedy agreement of float and integer model: {figures['greedy_agreement']:.2%}")
