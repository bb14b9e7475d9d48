"""Results on disk: written so that an interruption leaves the old file or the new one."""

import json
from pathlib import Path

from symlight.model.errors import UserError


def write_text(path: Path, text: str) -> None:
    """Write a whole file at once."""
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"the result cannot be written to {path}: {error.strerror}") from error


def write_json(path: Path, result: dict) -> None:
    """Write one object."""
    write_text(path, json.dumps(result, indent=1) + "\n")
