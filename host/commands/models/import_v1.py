"""`symlight import-v1`: a package out of a public SymbolicLight V1 checkpoint."""

from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import read_bounded
from symlight.model.package_folder import check_place
from symlight.model.tokenizer import MOST_TOKENIZER_BYTES
from symlight.model.v1.checkpoint import read_checkpoint
from symlight.model.v1.package import WEIGHT_TYPES, V1Meta, checked_tokenizer, save_v1

from ...library.chat_template import read_template
from ...terminal.console import stderr, waiting
from ...terminal.options import PATH, chat_template_option, force_option
from ...v1.hub import local_file


@click.command("import-v1")
@click.argument("checkpoint", metavar="CHECKPOINT.pt")
@click.option(
    "--tokenizer", required=True, metavar="FILE", help="SentencePiece model of this checkpoint (*.model)."
)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder to write.")
@click.option(
    "--weights",
    type=click.Choice(WEIGHT_TYPES),
    default="int8",
    show_default=True,
    help="Number format of the matrices; float32 is for checking, four times as large.",
)
@click.option("--name", metavar="NAME", help="Of the package; default: that of the folder.")
@chat_template_option
@force_option
@click.option("--synthetic", is_flag=True, help="Record that the weights were not trained.")
def import_v1(
    checkpoint: str,
    tokenizer: str,
    out: Path,
    weights: str,
    name: str | None,
    chat_template: Path | None,
    force: bool,
    synthetic: bool,
):
    """Make a package of a public SymbolicLight V1 checkpoint; nothing in the file is executed.

    CHECKPOINT and FILE are paths, or names on the Hugging Face hub: hf:OWNER/REPOSITORY/FILE. Needs the extra
    `torch`; the package does not.
    """
    check_place(out, force=force)
    template = None if chat_template is None else read_template(chat_template)
    console = stderr()
    with waiting(console, "reading the checkpoint"):
        pieces_file = local_file(tokenizer, ".model")
        try:
            pieces = read_bounded(pieces_file, MOST_TOKENIZER_BYTES)
        except OSError as error:
            raise UserError(f"the tokenizer {pieces_file} cannot be read: {error.strerror}") from error
        source = read_checkpoint(local_file(checkpoint, ".pt"))
        special = checked_tokenizer(pieces, str(pieces_file), source.shape).special()
    meta = V1Meta(
        name=name or out.resolve().name,
        description=f"SymbolicLight V1, {source.family.name} family",
        weights=weights,
        synthetic=synthetic,
        **special,
        chat_template=template,
        provenance={"checkpoint": checkpoint.rpartition("/")[2], "tensors": source.count},
    )
    with waiting(console, "writing the package"):
        save_v1(out, source.shape, meta, source.tensors(), pieces)
    click.echo(str(out))
