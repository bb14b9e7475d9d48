"""Folders whose names make and shells leave in one piece.

Make cannot work in a folder with a blank in its path, and has no way to quote one in a list of files; shells
take `$`, `#`, quotes and brackets apart. What make must see is therefore reached through links in a folder
without such characters.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError

_PLAIN = re.compile(r"[A-Za-z0-9_./+,@-]+")


def is_plain(path: Path) -> bool:
    """Whether make and shells leave the real path as it is."""
    return _PLAIN.fullmatch(str(path.resolve())) is not None


def plain_parent(wanted: Path) -> Path:
    """A folder with a plain path for temporary folders: `wanted`, or the system's for temporary files."""
    tried = [wanted, Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    for folder in tried:
        if is_plain(folder) and folder.is_dir():
            return folder.resolve()
    raise UserError(
        "make needs a folder whose path holds only letters, digits and _./+,@- but none of "
        f"{', '.join(dict.fromkeys(map(str, tried)))} is one; set TMPDIR to such a folder"
    )


@contextmanager
def plain_folder(wanted: Path) -> Iterator[Path]:
    """An empty folder with a plain path, in `wanted` if that is plain; it is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="symlight-", dir=plain_parent(wanted)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
