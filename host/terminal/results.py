"""Results on disk: written whole, and what prevents that is said in a sentence."""

import json
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.files import write_whole


def write_text(path: Path, text: str) -> None:
    """Write one text."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise UserError(f"the result cannot be written to {path}: {error.strerror}") from error


def write_json(path: Path, result: dict) -> None:
    """Write one object."""
    write_text(path, json.dumps(result, indent=1) + "\n")
