"""`symlight generate`: continue one prompt."""

import json

import click

from ..device.machine import Machine
from ..device.opening import OpenedDevice
from ..device.packages import open_package
from ..device.session import Session
from ..device.verify import Verifier
from ..terminal.console import ProgressView, TextOutput, stderr, waiting
from ..terminal.options import (
    PATH,
    device_option,
    device_options,
    model_option,
    package_tokenizer,
    prompt_options,
    take_device,
    take_prompt,
)
from ..terminal.turn_report import print_stats, print_summary, turn_json


@click.command()
@model_option
@device_option("cpu")
@device_options
@prompt_options
@click.option("--max-new-tokens", type=click.IntRange(min=0), default=64, show_default=True, metavar="N")
@click.option("--eos", type=int, metavar="ID", help="End-of-sequence token; default: the package's.")
@click.option("--no-eos", is_flag=True, help="Do not end at the end-of-sequence token.")
@click.option("--interactive", is_flag=True, help="One token a run instead of all in one.")
@click.option("--stop", multiple=True, metavar="TEXT", help="End at this text (makes the run interactive).")
@click.option("--verify", is_flag=True, help="Run the integer reference beside it and compare.")
@click.option("--stats", is_flag=True, help="Show cycles by phase, bytes by operation, density by site.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--load-state", type=PATH, metavar="FILE", help="Go on from a saved session.")
@click.option("--save-state", type=PATH, metavar="FILE", help="Save the session afterwards.")
def generate(**values):
    """Print the continuation of a prompt."""
    console = stderr()
    package = open_package(values.pop("model"))
    tokenizer = package_tokenizer(package)
    prompt = take_prompt(values, tokenizer, package)
    options = take_device(values)
    eos = package.meta.eos if values["eos"] is None else values["eos"]
    if values["no_eos"]:
        eos = None
    with ProgressView(console) as progress:
        device = OpenedDevice(options, package.model, progress)
    with device as machine:
        verifier = Verifier(package.model) if values["verify"] else None
        session = Session(machine, eos=eos, verifier=verifier)
        if values["load_state"]:
            session.load(values["load_state"])
        _one_turn(session, machine, tokenizer, prompt, values, console)
        if values["save_state"]:
            session.save(values["save_state"])


def _one_turn(
    session: Session, machine: Machine, tokenizer, prompt: list[int], values: dict, console
) -> None:
    as_json, stop, n_new = values["as_json"], values["stop"], values["max_new_tokens"]
    output = TextOutput(tokenizer, prompt, show=not as_json, stop=stop)
    count = 0
    with waiting(console, f"{machine.name}: {len(prompt)} prompt tokens") as status:

        def on_token(token: int) -> None:
            nonlocal count
            count += 1
            if as_json:
                status.update(f"{machine.name}: token {count} of at most {n_new}")
            else:
                status.stop()  # it would draw over the text
            output.push(token)

        try:
            turn = session.turn(
                prompt,
                n_new,
                interactive=values["interactive"] or bool(stop),
                on_token=on_token,
                should_stop=output.stopped,
            )
        finally:
            status.stop()  # also before the end of the line
            output.finish()
    if values["stats"]:
        print_stats(console, turn, machine)
    if as_json:
        click.echo(json.dumps(turn_json(turn, machine, output.text), ensure_ascii=False))
    else:
        print_summary(console, turn, machine)
