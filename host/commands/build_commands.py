"""Commands that make things: Verilog of a kernel, checkpoints, packages."""

import json
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.model.config import PRESETS
from symlight.model.package import TOKENIZER, PackageMeta, save_package
from symlight.model.tokenizer import Tokenizer

from ..device.fitting import layout_on
from ..device.kernels import engine_of, write_kernel
from ..device.packages import named_shape
from ..terminal.console import ProgressView, stderr, waiting
from ..terminal.options import PATH, SHAPES, FiniteRange, card_options, shape_option

CHECKPOINT, TRAINING = "model.safetensors", "train.json"  # in the folder that training writes
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
HBM_MAP = "hbm_map.json"
out_option = click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder to write.")


@click.command()
@shape_option("demo")
@card_options
@out_option
def verilog(model: str, card: str, build: str, out: Path):
    """Write the Verilog of a kernel, its manifest, and the memory map of a model on it."""
    console = stderr()
    shape, _ = named_shape(model)
    layout = layout_on(engine_of(card, build), shape)  # refuse a model that does not fit before the long part
    try:
        out.mkdir(parents=True, exist_ok=True)
        with ProgressView(console) as progress:
            write_kernel(out, card, build, progress)
        (out / HBM_MAP).write_text(json.dumps(hbm_map(layout), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror}") from error
    for file in sorted(out.iterdir()):
        click.echo(str(file))


@click.command()
@out_option
@click.option("--shape", default="demo", show_default=True, metavar="MODEL", help=f"Gives it: {SHAPES}.")
@click.option(
    "--corpus", type=PATH, metavar="FILE", help="Text to learn; default: the World English Bible, downloaded."
)
@click.option(
    "--minutes", type=FiniteRange(min=0, min_open=True), default=45, show_default=True, help="Budget."
)
@click.option("--steps", type=click.IntRange(min=1), help="Budget in optimiser steps instead: repeatable.")
@click.option("--seed", type=int, default=0, show_default=True)
def train(out: Path, shape: str, corpus: Path | None, minutes: float, steps: int | None, seed: int):
    """Train a float model; needs the extra `train`."""
    dimensions, _ = named_shape(shape)
    try:
        from symlight.model.training import trainer as training
    except ImportError as error:
        raise UserError(f"training needs PyTorch ({error}); run: pip install 'symlight[train]'") from error
    from symlight.model.training import corpus as corpora

    budget = {"steps": steps, "seconds": None} if steps else {"seconds": 60 * minutes}
    config = training.TrainingConfig(seed=seed, **budget)
    training.train(corpora.load(corpus, out), out, shape=dimensions, training=config, console=stderr())
    click.echo(str(out / CHECKPOINT))


@click.command()
@click.argument("checkpoint", type=PATH)
@out_option
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
@click.option("--bos", type=int, metavar="ID", help="That token; default: the tokenizer's.")
def quantise(
    checkpoint: Path,
    out: Path,
    tokenizer: Path | None,
    name: str | None,
    description: str,
    data: str | None,
    eos: int | None,
    prepend_bos: bool,
    bos: int | None,
):
    """Make an INT8 package of a float checkpoint (a file, or the folder that `train` wrote)."""
    from symlight.model.training.quantise import quantise as to_integers
    from symlight.model.training.quantise import read_checkpoint

    file = checkpoint / CHECKPOINT if checkpoint.is_dir() else checkpoint
    source = tokenizer or file.parent / TOKENIZER
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
            name=name or out.name,
            description=description,
            eos=eos,
            bos=bos,
            prepend_bos=prepend_bos,
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
        report = json.loads(file.read_text(encoding="utf-8"))
        return {name: report[name] for name in PROVENANCE}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not the report of a training ({error!r}); remove it") from error


def _tokenizer_bytes(file: Path, *, required: bool) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError as error:
        if required:
            raise UserError(f"the tokenizer {file} cannot be read: {error.strerror}") from error
        return None


@click.command()
@shape_option("194m")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--density",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.24,
    show_default=True,
    help="Share of nonzero events, more than 0 and less than 1.",
)
@out_option
def synthesize(model: str, seed: int, density: float, out: Path):
    """Make a package with random weights whose events have a given density: for measurements, not for
    text."""
    from symlight.model.synthetic import calibrated

    shape, title = named_shape(model)
    with waiting(stderr(), f"synthesize {model}"):
        integers, measured = calibrated(shape, seed, density)
        meta = PackageMeta(
            name=out.name,
            description=f"random weights, shape {title}",
            synthetic=True,
            provenance={
                "preset" if model in PRESETS else "shape": title,
                "seed": seed,
                "density": round(measured, 4),
            },
        )
        save_package(out, integers, meta)
    click.echo(str(out))
