"""`symlight eval`: how well a model predicts a text."""

from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.model.text import from_bytes

from ..device.packages import open_any
from ..terminal.options import PATH, cache_option, device_option
from ..v1.measure import as_json_option, eval_v1, refuse_v2


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
@cache_option
@as_json_option
def eval_command(package: str, text: Path, device: str, sequence: int, cache: Path, as_json: bool):
    """Perplexity, bits a byte and accuracy of PACKAGE on the file TEXT."""
    opened = refuse_v2(open_any(package), "eval")
    try:
        content = from_bytes(text.read_bytes(), f"the text {text}")
    except OSError as error:
        raise UserError(f"the text {text} cannot be read: {error.strerror}") from error
    eval_v1(opened, content, device, cache, sequence, as_json)
