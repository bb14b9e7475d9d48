"""`symlight quantise`: an INT8 package from a float checkpoint."""

from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import read_bounded
from symlight.base.json_file import read_object
from symlight.model.package import TOKENIZER, PackageMeta, save_package
from symlight.model.package_folder import check_place
from symlight.model.tokenizer import MOST_TOKENIZER_BYTES, Tokenizer

from ...library.chat_template import read_template
from ...terminal.console import stderr, waiting
from ...terminal.options import PATH, chat_template_option, force_option, out_option

CHECKPOINT, TRAINING = "model.safetensors", "train.json"  # in the folder that training writes
CHAT_TEMPLATE = "chat_template.jinja"  # beside a checkpoint, as other models have it
PROVENANCE = (
    "parameters",
    "training",
    "steps",
    "seconds",
    "train_tokens",
    "tokens_seen",
    "heldout_bytes",
    "heldout_bits_per_byte",
)  # of TRAINING


@click.command()
@click.argument("checkpoint", type=PATH)
@out_option
@force_option
@click.option(
    "--tokenizer", type=PATH, metavar="FILE", help="SentencePiece model; default: beside the checkpoint."
)
@click.option("--name", help="Name of the package; default: that of the folder.")
@click.option("--description", default="", help="One line about the model.")
@click.option("--data", metavar="TEXT", help="What the model was trained on, for the provenance.")
@click.option("--eos", type=int, metavar="ID", help="End-of-sequence token; default: the tokenizer's.")
@click.option(
    "--prepend-bos",
    is_flag=True,
    help="The model was trained on texts that begin with a beginning-of-sequence token.",
)
@chat_template_option
@click.option("--bos", type=int, metavar="ID", help="That token; default: the tokenizer's.")
def quantise(
    checkpoint: Path,
    out: Path,
    force: bool,
    tokenizer: Path | None,
    name: str | None,
    description: str,
    data: str | None,
    eos: int | None,
    prepend_bos: bool,
    bos: int | None,
    chat_template: Path | None,
):
    """Make an INT8 package of a float checkpoint (a file, or the folder that `train` wrote)."""
    from symlight.model.training.quantise import quantise as to_integers
    from symlight.model.training.quantise import read_checkpoint

    check_place(out, force=force)
    file = checkpoint / CHECKPOINT if checkpoint.is_dir() else checkpoint
    source = tokenizer or file.parent / TOKENIZER
    beside = file.parent / CHAT_TEMPLATE
    template = chat_template or (beside if beside.is_file() else None)
    chat = None if template is None else read_template(template)
    tokenizer_bytes = _tokenizer_bytes(source, required=tokenizer is not None)
    provenance = ({} if data is None else {"data": data}) | _training(file)
    with waiting(stderr(), "quantise"):
        model, logit_scale = to_integers(read_checkpoint(file))
        if tokenizer_bytes is not None:
            special = Tokenizer(tokenizer_bytes, str(source)).special()
            eos = special["eos"] if eos is None else eos
            bos = special["bos"] if bos is None and prepend_bos else bos
        if prepend_bos and bos is None:
            raise UserError("the tokenizer has no beginning-of-sequence token to prepend; give --bos ID")
        meta = PackageMeta(
            name=name or out.resolve().name,
            description=description,
            eos=eos,
            bos=bos,
            prepend_bos=prepend_bos,
            chat_template=chat,
            logit_scale=logit_scale,
            provenance=provenance,
        )
        save_package(out, model, meta, tokenizer_bytes)
    click.echo(str(out))


def _training(checkpoint: Path) -> dict:
    """What the report beside a checkpoint that `train` wrote says about the training."""
    file = checkpoint.parent / TRAINING
    if checkpoint.name != CHECKPOINT or not file.is_file():
        return {}
    try:
        report = read_object(file, "remove it")
        return {name: report[name] for name in PROVENANCE}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not the report of a training ({error!r}); remove it") from error


def _tokenizer_bytes(file: Path, *, required: bool) -> bytes | None:
    try:
        return read_bounded(file, MOST_TOKENIZER_BYTES)
    except OSError as error:
        if required:
            raise UserError(f"the tokenizer {file} cannot be read: {error.strerror}") from error
        return None
