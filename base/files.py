"""Whole files on disk: an interrupted process leaves the old one or the new one, never half of one."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one step; text as UTF-8. `OSError` if it cannot be written: the old file stays."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)  # a temporary file is its owner's alone
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
