"""`symlight profile`: spikes, work and time of a model on a prompt."""

from pathlib import Path

import click

from ..device.packages import open_any
from ..terminal.options import cache_option, device_option
from ..terminal.prompts import prompt_options, take_prompt
from ..v1.measure import as_json_option, profile_v1, refuse_v2


@click.command("profile")
@click.argument("package")
@device_option("cpu")
@prompt_options
@click.option("--max-new-tokens", type=click.IntRange(min=0), default=32, show_default=True, metavar="N")
@cache_option
@as_json_option
def profile_command(package: str, device: str, max_new_tokens: int, cache: Path, as_json: bool, **values):
    """Density by layer, work and bytes by matrix, time by phase of PACKAGE on a prompt and what follows."""
    opened = refuse_v2(open_any(package), "profile")
    prompt = take_prompt(values, opened).ids
    profile_v1(opened, prompt, device, cache, max_new_tokens, as_json)
