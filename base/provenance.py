"""Where a result comes from: the commit that every kept result carries."""

import subprocess
from pathlib import Path

import symlight

DIGITS = 40  # of a commit's name


def commit(*paths: str) -> str | None:
    """The commit of the sources, with "+" when they have been changed since; None outside a repository.

    Changed means any tracked file, or with `paths`, relative to the repository, any file there.
    """
    root = Path(symlight.__file__).resolve().parent.parent
    status = ("status", "--porcelain", *(("--", *paths) if paths else ("--untracked-files=no",)))
    try:
        name, changed = (
            subprocess.run(
                ["git", "-C", str(root), *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (("rev-parse", "HEAD"), status)
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return name + ("+" if changed else "")


def short(name: str | None) -> str:
    """`commit()` in twelve digits, for a table; its "+" stays."""
    return "unknown" if name is None else name[:12] + name[DIGITS:]
