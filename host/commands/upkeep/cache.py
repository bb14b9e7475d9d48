"""`symlight cache`: show, check and empty what is generated and compiled once and kept."""

from datetime import datetime
from pathlib import Path

import click
from rich.table import Table

from symlight.base.cache import Entry, default_cache, entries, remove
from symlight.cpu.build import ROOM as CPU
from symlight.cpu.store import WEIGHTS
from symlight.sim.build import MODELS

from ...bench.table import PACKAGES
from ...device.golden import CHECKS
from ...device.kernels import KERNELS
from ...device.verify import VerificationError
from ...terminal.console import stderr, stdout, waiting
from ...terminal.options import cache_option
from ...terminal.results import print_json

ROOMS = (KERNELS, MODELS, PACKAGES, CPU, f"{CPU}/{WEIGHTS}", f"{CPU}/{CHECKS}")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group(invoke_without_command=True)
@click.pass_context
def cache(context: click.Context):
    """Show, check or empty the cache of kernels, simulators and packed weights."""
    if context.invoked_subcommand is None:
        context.invoke(show, cache=None, as_json=False)


@cache.command()
@cache_option
@json_option
def show(cache: Path | None, as_json: bool):
    """List what is kept, and how large it is."""
    _report(_folder(cache), as_json, [_about(entry) for entry in entries(_folder(cache), ROOMS)])


@cache.command()
@cache_option
@json_option
def check(cache: Path | None, as_json: bool):
    """Compare every file with the size and the checksum that it had when it was made."""
    found = []
    with waiting(stderr(), "checking") as status:
        for entry in entries(_folder(cache), ROOMS):
            status.update(f"checking {entry.room.name}/{entry.key}")
            found.append(_about(entry) | {"state": entry.damage() or "whole"})
    _report(_folder(cache), as_json, found)
    bad = sum(one["state"] != "whole" for one in found)
    if bad:
        raise VerificationError(
            f"{bad} of {len(found)} entries are damaged or unfinished; they are made again when needed"
        )


@cache.command()
@cache_option
def empty(cache: Path | None):
    """Remove everything that is kept; what is needed is made again. What is being made stays."""
    folder, freed, busy = _folder(cache), 0, []
    for entry in entries(folder, ROOMS):
        size = entry.bytes()
        if remove(entry.room, entry.key):
            freed += size
        else:
            busy.append(f"{entry.room.name}/{entry.key}")
    click.echo(f"{freed:,} bytes of {folder} removed" + (f"; in use: {', '.join(busy)}" if busy else ""))


def _folder(cache: Path | None) -> Path:
    return default_cache() if cache is None else cache


def _about(entry: Entry) -> dict:
    made = entry.made()
    return {
        "room": entry.room.name,
        "key": entry.key,
        "bytes": entry.bytes(),
        "made": None if made is None else f"{datetime.fromtimestamp(made):%Y-%m-%d %H:%M}",
    }


def _report(folder: Path, as_json: bool, found: list[dict]) -> None:
    total = sum(one["bytes"] for one in found)
    if as_json:
        print_json({"cache": str(folder), "bytes": total, "entries": found})
        return
    if found:
        table = Table(*found[0])
        for one in found:
            table.add_row(*(f"{v:,}" if isinstance(v, int) else str(v or "-") for v in one.values()))
        stdout().print(table)
    stdout().print(f"{folder}: {len(found)} entries, {total:,} bytes")
