"""Results on disk: written so that an interruption leaves the old file or the new one, and with the commit
that they belong to."""

import json
import subprocess
from pathlib import Path

import symlight
from symlight.model.errors import UserError


def commit() -> str | None:
    """The commit of the sources, with "+" when they have been changed since; None outside a repository."""
    root = Path(symlight.__file__).resolve().parent.parent
    try:
        say = [
            subprocess.run(
                ["git", "-C", str(root), *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return say[0] + ("+" if say[1] else "")


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
