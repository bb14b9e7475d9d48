"""`symlight generate`: continue one prompt."""

import io
from pathlib import Path

import click
import numpy as np

from symlight.base.errors import UserError
from symlight.base.files import check_file, write_whole
from symlight.hw.interface import Io
from symlight.model.package import Package
from symlight.model.sampling import GREEDY, SamplingOptions
from symlight.model.session_file import read_session
from symlight.model.v1.package import V1Package

from ..device.machine import Standing, check_input
from ..device.packages import open_any
from ..library.completion import MAX_ALTERNATIVES, Completion, Token
from ..library.model import Model
from ..library.session import Session
from ..terminal.console import ProgressView, TextOutput, stderr, waiting
from ..terminal.options import (
    PATH,
    NonEmpty,
    device_option,
    device_options,
    model_option,
    refuse_given,
    take_device,
)
from ..terminal.prompts import Prompt, prompt_options, take_prompt, unknown_sentence
from ..terminal.results import print_json
from ..terminal.sampling_options import resolve_sampling, sampling_options, take_sampling
from ..terminal.turn_report import print_stats, print_summary, turn_json


@click.command()
@model_option
@device_option("cpu")
@device_options
@prompt_options
@sampling_options(GREEDY)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    metavar="N",
    help=f"At most {Io.MAX_NEW}.",
)
@click.option("--eos", type=int, metavar="ID", help="End-of-sequence token; default: the package's.")
@click.option("--no-eos", is_flag=True, help="Do not end at the end-of-sequence token.")
@click.option("--interactive", is_flag=True, help="One token a run instead of all in one.")
@click.option(
    "--stop",
    type=NonEmpty(),
    multiple=True,
    metavar="TEXT",
    help="End at this text (makes the run interactive).",
)
@click.option(
    "--logprobs",
    type=click.IntRange(0, MAX_ALTERNATIVES),
    metavar="K",
    help="With --json: log-probabilities of the tokens and of K alternatives.",
)
@click.option(
    "--logits-out",
    type=PATH,
    metavar="FILE",
    help="Write the integer logits after every prompt and generated token, an .npy file.",
)
@click.option("--verify", is_flag=True, help="Run the integer reference beside it and compare.")
@click.option("--stats", is_flag=True, help="Show cycles by phase, bytes by operation, density by site.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--load-state", type=PATH, metavar="FILE", help="Go on from a saved session.")
@click.option("--save-state", type=PATH, metavar="FILE", help="Save the session afterwards.")
def generate(**values):
    """Print the continuation of a prompt."""
    console = stderr()
    given = take_sampling(values)
    if values["no_eos"]:
        refuse_given(["eos"], "with --no-eos")
    if values["logprobs"] is not None and not values["as_json"]:
        raise UserError("--logprobs are written into the JSON object; give --json too")
    resolve_sampling(given, None, GREEDY)  # refuses wrong values before anything is opened
    package = open_any(values.pop("model"), lazy=True)
    prompt = take_prompt(values, package)
    if sentence := unknown_sentence(prompt.unknown):
        console.say(sentence)
    options = take_device(values)
    _refuse_early(package, prompt, values)
    with ProgressView(console) as progress:
        model = Model(package, options, verify=values["verify"], progress=progress)
    with model:
        session = model.session()
        saved = session.load(values["load_state"]) if values["load_state"] else None
        sampling = resolve_sampling(given, saved, GREEDY)
        _one_turn(model, session, prompt, sampling, values, console)
        if values["save_state"]:
            session.save(values["save_state"], None if sampling.greedy else sampling)


def _refuse_early(package: Package | V1Package, prompt: Prompt, values: dict) -> None:
    """A `UserError` or `OSError` for everything that can be known to fail before a device is opened."""
    for name in ("save_state", "logits_out"):
        if values[name]:
            check_file(values[name])
    standing = Standing(package.shape)
    if values["load_state"] and isinstance(package, Package):
        state = read_session(values["load_state"], package.shape).state
        standing = Standing(package.shape, state.position, state.pending)
    elif values["load_state"]:
        return  # what of V1 can be loaded is the machine's to say
    check_input(standing, prompt.ids, values["max_new_tokens"], _eos(package.meta.eos, values))


def _one_turn(
    model: Model, session: Session, prompt: Prompt, sampling: SamplingOptions, values: dict, console
) -> None:
    as_json, n_new, machine = values["as_json"], values["max_new_tokens"], model.machine
    output = TextOutput(show=not as_json)
    rows: list[np.ndarray] = []
    count = 0
    with waiting(console, f"{machine.name}: {len(prompt.ids)} prompt tokens") as status:

        def on_token(token: Token) -> None:
            nonlocal count
            count += 1
            if as_json:
                status.update(f"{machine.name}: token {count} of at most {n_new}")
            else:
                status.stop()  # it would draw over the text
            output.push(token)

        try:
            done = session.complete(
                prompt.ids,
                max_new_tokens=n_new,
                sampling=sampling,
                logprobs=values["logprobs"],
                stop=values["stop"],
                eos=_eos(model.eos, values),
                interactive=values["interactive"],
                on_token=on_token,
                on_logits=rows.append if values["logits_out"] else None,
            )
        finally:
            status.stop()  # also before the end of the line
            output.finish()
    if values["logits_out"]:
        _write_logits(values["logits_out"], rows, model.shape.vocab)
    _report(model, done, prompt, values, console)


def _eos(own: int | None, values: dict) -> int | None:
    if values["no_eos"]:
        return None
    return own if values["eos"] is None else values["eos"]


def _write_logits(file: Path, rows: list[np.ndarray], vocab: int) -> None:
    """int64 [n, V]: a row after every token that was ingested."""
    content = io.BytesIO()
    np.save(content, np.concatenate(rows) if rows else np.zeros((0, vocab), np.int64))
    write_whole(file, content.getvalue())


def _report(model: Model, done: Completion, prompt: Prompt, values: dict, console) -> None:
    if values["stats"]:
        print_stats(console, done.turn, model.machine)
    if values["as_json"]:
        print_json(turn_json(done, model.machine, prompt.unknown))
    else:
        print_summary(console, done, model.machine)
