"""Options that say how tokens are chosen, and what becomes of them."""

import random
from collections.abc import Callable
from dataclasses import fields

import click

from symlight.base.errors import UserError
from symlight.model.sampling import CANDIDATES, GREEDY, SamplingOptions

NAMES = tuple(field.name for field in fields(SamplingOptions))
CHAT = SamplingOptions(temperature=0.8, top_p=0.95, min_p=0.05)  # how `chat` chooses by default
SEED_BITS = 32  # of a seed that nobody gave: short enough to be typed again


def sampling_options(default: SamplingOptions) -> Callable:
    """The options of a command that chooses like `default` where none is given."""
    usual = "greedy" if default.greedy else f"temperature {default.temperature:g}"
    options = (
        click.option("--temperature", type=float, metavar="T", help=f"0 is greedy; default: {usual}."),
        click.option(
            "--top-k", type=int, metavar="K", help=f"Keep the K likeliest tokens, at most {CANDIDATES}."
        ),
        click.option("--top-p", type=float, metavar="P", help="Keep the likeliest tokens that sum to P."),
        click.option(
            "--min-p", type=float, metavar="P", help="Keep tokens P times as likely as the likeliest."
        ),
        click.option("--seed", type=int, metavar="N", help="Seed of the text; default: a random one."),
    )

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def take_sampling(values: dict) -> dict:
    """Take what `sampling_options` added out of a command's values: the options that were given."""
    taken = {name: values.pop(name) for name in NAMES}
    return {name: value for name, value in taken.items() if value is not None}


def resolve_sampling(given: dict, saved: SamplingOptions | None, default: SamplingOptions) -> SamplingOptions:
    """The options that were `given`, else those of the loaded session, else the command's `default`.

    A sampled text without a seed gets a random one.
    """
    base = default if saved is None else saved
    chosen = SamplingOptions(**{name: given.get(name, getattr(base, name)) for name in NAMES})
    if chosen.greedy:
        useless = [name for name in ("top_k", "top_p", "min_p") if name in given]
        if useless:
            option = "--" + useless[0].replace("_", "-")
            raise UserError(f"{option} changes nothing at temperature 0; give --temperature too")
        return GREEDY
    if "seed" not in given and saved is None:
        return chosen.with_seed(random.SystemRandom().getrandbits(SEED_BITS))
    return chosen


def describe(sampling: SamplingOptions) -> str:
    """A few words for the summary."""
    if sampling.greedy:
        return "greedy"
    parts = [f"temperature {sampling.temperature:g}"]
    parts += [
        f"{name} {getattr(sampling, name):g}"
        for name in ("top_k", "top_p", "min_p")
        if getattr(sampling, name) != getattr(GREEDY, name)
    ]
    return ", ".join([*parts, f"seed {sampling.seed}"])
