"""Results on disk: written whole, and one sentence names what prevents that."""

import json
import sys
from pathlib import Path

import click

from symlight.base.files import write_whole
from symlight.base.printable import printable_json


def write_text(path: Path, text: str) -> None:
    """Write one text."""
    write_whole(path, text)


def write_json(path: Path, result: dict) -> None:
    """Write one object."""
    write_text(path, json.dumps(result, indent=1) + "\n")


def print_json(result: dict) -> None:
    """Write one object to standard output, as one line that any terminal and any locale takes."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(printable_json(json.dumps(result, ensure_ascii=not utf8)))
