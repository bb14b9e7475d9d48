"""Whole files on disk: an interrupted process leaves the old one or the new one, never half of one.

What is read has an end.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Every `OSError` of the block names `path`: a full disk does not, and a temporary file means nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a file of at most `most` bytes.

    A longer one, or a device, which may have no end, is a `UserError`. `OSError` if it cannot be read.
    """
    with naming(path), open(path, "rb") as file:
        kind = os.fstat(file.fileno()).st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise UserError(f"{path} is a device, not a file; give a file")
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path} has more than {most:,} bytes; give another file")
    return content


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one step; text as UTF-8. `OSError` if it cannot be written: the old file stays.

    A link stays a link, and what is no regular file (a terminal, a pipe, /dev/null) is written to.
    """
    data = content.encode() if isinstance(content, str) else content
    with naming(path):
        target = path.resolve()
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                file.write(data)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), _mode(target))
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or of a new one: a temporary file is its owner's alone."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def check_file(path: Path) -> None:
    """Refuse, before the work, a file that `write_whole` could not write: `UserError` or `OSError`."""
    with naming(path):
        target = path.resolve()
        if target.is_dir():
            raise UserError(f"{path} is a folder; give the name of a file")
        if not target.parent.exists():
            raise UserError(
                f"{path}: the folder {target.parent} does not exist; make it, or choose another place"
            )
        if target.exists() and not target.is_file():
            return
        _check_folder(target.parent)


def check_folder(path: Path) -> None:
    """Refuse, before the work, a folder that could not be made or written to: `UserError` or `OSError`."""
    with naming(path):
        target = path.resolve()
        while not target.exists():
            target = target.parent
        _check_folder(target)


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(f"{folder} is a file, a folder is needed there; choose another place")
    with tempfile.TemporaryFile(dir=folder):
        pass
