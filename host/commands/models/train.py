"""`symlight train`: a float model from a text."""

from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import check_folder
from symlight.model.config import OPTIONAL_SITES

from ...device.packages import named_shape
from ...terminal.console import stderr
from ...terminal.options import PATH, SHAPES, FiniteRange, out_option, refuse_given
from .quantise import CHECKPOINT, TRAINING

RESUME = "resume.pt"  # in the folder of a training: what it takes to go on


def optional_sites(context, parameter, value: str) -> tuple[str, ...]:
    """`out,head` as names, in the order of OPTIONAL_SITES."""
    names = list(filter(None, value.split(",")))
    for name in names:
        if name not in OPTIONAL_SITES:
            raise UserError(f"--event-sites has {name!r}; known: {', '.join(OPTIONAL_SITES)}")
    return tuple(site for site in OPTIONAL_SITES if site in names)


@click.command()
@out_option
@click.option("--shape", default="demo", show_default=True, metavar="MODEL", help=f"Gives it: {SHAPES}.")
@click.option(
    "--corpus", type=PATH, metavar="FILE", help="Text to learn; default: the World English Bible, downloaded."
)
@click.option(
    "--data",
    type=PATH,
    multiple=True,
    metavar="PATH",
    help="Text files of any size (repeatable), or a folder of token shards; instead of --corpus.",
)
@click.option("--shards-only", is_flag=True, help="Tokenise the text files of --data, and leave.")
@click.option("--tokenizer", type=PATH, metavar="FILE", help="SentencePiece model; default: trained here.")
@click.option(
    "--from", "start", type=PATH, metavar="CHECKPOINT", help="First tensors: a float checkpoint, or a V1's."
)
@click.option(
    "--minutes", type=FiniteRange(min=0, min_open=True), default=45, show_default=True, help="Budget."
)
@click.option("--steps", type=click.IntRange(min=1), help="Budget in optimiser steps instead: repeatable.")
@click.option("--stop-after", type=click.IntRange(min=1), metavar="N", help="Leave after step N.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Sequences a part.")
@click.option("--accumulate", type=click.IntRange(min=1), default=1, show_default=True, help="Parts a step.")
@click.option("--sequence", type=click.IntRange(min=2), default=256, show_default=True, help="Tokens.")
@click.option(
    "--rate", type=FiniteRange(min=0, min_open=True), default=1e-2, show_default=True, help="Highest."
)
@click.option(
    "--sparsity",
    type=FiniteRange(min=0),
    default=0.0,
    show_default=True,
    metavar="LAMBDA",
    help="Weight of the penalty on bytes; above 0 the thresholds learn, too.",
)
@click.option(
    "--event-sites",
    callback=optional_sites,
    default="",
    metavar="out,head",
    help="Optional event sites of the model.",
)
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="Of torch: cpu, cuda, ...")
@click.option("--force", is_flag=True, help="Begin anew where an earlier training is, and replace it.")
@click.option("--precision", type=click.Choice(["auto", "fp32", "bf16"]), default="auto", show_default=True)
def train(
    out: Path,
    shape: str,
    corpus: Path | None,
    data: tuple[Path, ...],
    shards_only: bool,
    tokenizer: Path | None,
    start: Path | None,
    minutes: float,
    steps: int | None,
    stop_after: int | None,
    seed: int,
    batch: int,
    accumulate: int,
    sequence: int,
    rate: float,
    sparsity: float,
    event_sites: tuple[str, ...],
    device: str,
    force: bool,
    precision: str,
):
    """Train a float model; needs the extra `train` (docs/sparsity.md).

    What was left in the folder is resumed. torchrun starts it on several GPUs.
    """
    _check_place(out, force)
    dimensions, _ = named_shape(shape)
    try:
        from symlight.model.training import trainer as training
    except ImportError as error:
        raise UserError(f"training needs PyTorch ({error}); run: pip install 'symlight[train]'") from error
    from symlight.model.training import corpus as corpora
    from symlight.model.training.data import Data, prepare_large
    from symlight.model.training.float_model import FloatConstants
    from symlight.model.training.settings import TrainingConfig

    if steps:
        refuse_given(["minutes"], "with --steps")
    if data:
        refuse_given(["corpus"], "with --data")
    else:
        refuse_given(["shards_only"], "without --data")
    budget = {"steps": steps, "seconds": None} if steps else {"seconds": 60 * minutes}
    config = TrainingConfig(
        seed=seed,
        batch=batch,
        accumulate=accumulate,
        sequence=sequence,
        peak_rate=rate,
        strength=sparsity,
        device=device,
        precision=precision,
        **budget,
    )
    source: Data | corpora.Corpus
    if data:
        source = prepare_large(list(data), out, dimensions.vocab, tokenizer)
        if shards_only:
            click.echo(str(out / "shards"))
            return
    else:
        source = corpora.load(corpus, out)
    training.train(
        source,
        out,
        shape=dimensions,
        constants=FloatConstants(event_sites=event_sites, trained_thresholds=sparsity > 0),
        training=config,
        console=stderr(),
        start=start,
        tokenizer=tokenizer,
        stop_after=stop_after,
    )
    click.echo(str(out / CHECKPOINT))


def _check_place(out: Path, force: bool) -> None:
    """Refuse to replace a training that cannot be resumed; with `force` forget what could be."""
    check_folder(out)
    if force:
        (out / RESUME).unlink(missing_ok=True)
    elif not (out / RESUME).exists() and (kept := [n for n in (CHECKPOINT, TRAINING) if (out / n).exists()]):
        raise UserError(
            f"{out} holds {kept[0]} of an earlier training; choose another place, or replace it with --force"
        )
