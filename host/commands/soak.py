"""`symlight soak`: random conversations on a device for hours, compared with the integer reference."""

from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.provenance import commit
from symlight.model.package import Package

from ..device.machine import Machine
from ..device.opening import DeviceOptions, OpenedDevice
from ..device.packages import open_package
from ..soak.plan import MOST_TOKENS
from ..soak.record import Record, read_record, write_record
from ..soak.soak import PROBE_EVERY, Limit, Soak
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, FiniteRange, device_option, device_options, model_option, take_device
from ..terminal.results import print_json


@click.command(
    help=f"""Soak a device: random conversations, each turn compared with the integer reference.

    A turn has 0 to {MOST_TOKENS} tokens and runs continuously or token by token; sessions are reset, saved
    and loaded, and their rings wrap. Tokens and counts are compared in every turn, the whole state at least
    in one of {PROBE_EVERY}. Give --turns or --minutes; with --out FILE
    the same command goes on where an earlier one ended."""
)
@model_option
@device_option("sim")
@device_options
@click.option("--seed", type=int, default=1, show_default=True, help="Of the conversations.")
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="End after so many turns.")
@click.option("--minutes", type=FiniteRange(min=0, min_open=True), metavar="M", help="End after so long.")
@click.option("--out", type=PATH, metavar="FILE", help="Record to write, and to go on from.")
@click.option(
    "--first-conversation",
    type=click.IntRange(min=0),
    metavar="C",
    help="Begin with this conversation, to repeat a failure.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def soak(seed: int, turns: int | None, minutes: float | None, out: Path | None, as_json: bool, **values):
    console = stderr()
    limit = _limit(turns, minutes)
    first = values.pop("first_conversation")
    if out is not None and first is not None:
        raise UserError("--first-conversation repeats a failure; it takes no --out")
    package = open_package(values.pop("model"))
    options = take_device(values)
    if options.device == "reference":
        raise UserError("the reference cannot be compared with itself; soak cpu, sim or xrt:0")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: the folder {out.parent} does not exist; create it")
    with ProgressView(console) as progress:
        with OpenedDevice(options, package, progress) as machine:
            record = _record(seed, package, options, machine, out)
            record.next_conversation = first or record.next_conversation

            def save(record: Record) -> None:
                if out is not None:
                    write_record(out, record)

            def on_turn(record: Record) -> None:
                progress("soak", *limit.progress(record))

            try:
                Soak(machine, package.model, record, save=save, on_turn=on_turn).run(limit)
            finally:
                _tell(record, as_json)


def _limit(turns: int | None, minutes: float | None) -> Limit:
    if (turns is None) == (minutes is None):
        raise UserError("give one limit: --turns N or --minutes M")
    return Limit(turns, None if minutes is None else 60 * minutes)


def _record(
    seed: int, package: Package, options: DeviceOptions, machine: Machine, out: Path | None
) -> Record:
    """What the soak goes on from."""
    build_id = getattr(machine, "build_id", None)
    kernel = {name: getattr(options, name) for name in ("card", "build", "hbm", "refresh_seed")}
    settings = {
        "seed": seed,
        "model": package.meta.name,
        "package": package.digest,
        "synthetic": package.meta.synthetic,
        "device": options.device,
        **(kernel if options.device == "sim" else dict.fromkeys(kernel)),
        "build_id": None if build_id is None else f"{build_id:032x}",
        "flags": int(options.flags),
    }
    record = Record(settings) if out is None else read_record(out, settings)
    record.commit = commit()
    return record


def _tell(record: Record, as_json: bool) -> None:
    """The one line, and the object if it is wanted: also after a failure or an interruption."""
    click.echo(record.line(), err=as_json)
    if as_json:
        print_json(record.to_json())
