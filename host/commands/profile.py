"""`symlight profile`: density, work and time of a model on a prompt."""

from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.model.package import Package

from ..device.cpu_machine import CpuMachine
from ..device.opening import DeviceOptions, OpenedDevice
from ..device.packages import open_any
from ..measure.profile import profile
from ..measure.profile_report import page, print_profile
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, cache_option, device_option
from ..terminal.prompts import prompt_options, take_prompt
from ..terminal.results import print_json, write_text
from ..v1.measure import as_json_option, profile_v1


@click.command("profile")
@click.argument("package")
@device_option("cpu")
@prompt_options
@click.option("--max-new-tokens", type=click.IntRange(min=0), default=32, show_default=True, metavar="N")
@click.option("--html", type=PATH, metavar="FILE", help="Write a page with heat maps, too (V2).")
@cache_option
@as_json_option
def profile_command(
    package: str,
    device: str,
    max_new_tokens: int,
    html: Path | None,
    cache: Path,
    as_json: bool,
    **values,
):
    """Density by layer, work and bytes by matrix, time by phase of PACKAGE on a prompt and what follows."""
    opened = open_any(package, lazy=True)
    prompt = take_prompt(values, opened).ids
    if not isinstance(opened, Package):
        if html is not None:
            raise UserError("--html shows packages of SymbolicLight V2 only; leave it out")
        profile_v1(opened, prompt, device, cache, max_new_tokens, as_json)
        return
    with ProgressView(stderr()) as progress:
        with OpenedDevice(DeviceOptions(device=device, cache=cache), opened, progress) as machine:
            if not isinstance(machine, CpuMachine):
                raise UserError(f"device {device!r} has no clock for its operations; use --device cpu")
            found = profile(machine.engine, prompt, max_new_tokens, progress)
    if html is not None:
        try:
            write_text(html, page(found, f"Profile of {opened.meta.name}"))
        except OSError as error:
            raise UserError(f"the page cannot be written to {html}: {error.strerror}") from error
    if as_json:
        print_json({"package": str(opened.path), "digest": opened.digest, "device": device} | found.to_json())
    else:
        print_profile(found)
