"""`symlight train`: a float model from a text."""

from pathlib import Path

import click

from symlight.base.errors import UserError

from ...device.packages import named_shape
from ...terminal.console import stderr
from ...terminal.options import PATH, SHAPES, FiniteRange, out_option, refuse_given
from .quantise import CHECKPOINT


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

    if steps:
        refuse_given(["minutes"], "with --steps")
    budget = {"steps": steps, "seconds": None} if steps else {"seconds": 60 * minutes}
    config = training.TrainingConfig(seed=seed, **budget)
    training.train(corpora.load(corpus, out), out, shape=dimensions, training=config, console=stderr())
    click.echo(str(out / CHECKPOINT))
