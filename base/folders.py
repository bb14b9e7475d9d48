"""Folders of files that are written whole: an older content stays until the new one is complete.

A folder that exists keeps its place, so it may be a mount point, the target of a link or a working directory;
its files are replaced by renaming inside it. What a killed process leaves there begins with `LEFT`:
half of a new content in `new`, or the older content, whole, in `old`.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .files import naming

LEFT = ".symlight-"
_NEW, _OLD = f"{LEFT}new-", f"{LEFT}old-"


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """An empty folder to fill; after the block it is at `path`, or its files are in place of those there.

    An exception, also of the block, leaves `path` as it was.
    """
    with naming(path):
        target = path.resolve()
        existed = target.is_dir()
        if not existed:
            target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=_NEW, dir=target if existed else target.parent))
    try:
        work.chmod(0o755)
        with naming(path):
            yield work
            if existed:
                _replace_content(target, work)
            else:
                os.rename(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _replace_content(folder: Path, new: Path) -> None:
    names = sorted(file.name for file in new.iterdir())
    old = Path(tempfile.mkdtemp(prefix=_OLD, dir=folder))
    try:
        for file in sorted(folder.iterdir()):
            if not file.name.startswith(LEFT):
                os.rename(file, old / file.name)
        for name in names:
            os.rename(new / name, folder / name)
    except BaseException:
        for name in names:
            if not (new / name).exists():
                os.rename(folder / name, new / name)
        for file in old.iterdir():
            os.rename(file, folder / file.name)
        with suppress(OSError):
            old.rmdir()
        raise
    for left in folder.glob(f"{LEFT}*"):
        if left != new:
            shutil.rmtree(left, ignore_errors=True)


def left_behind(folder: Path) -> Path | None:
    """The older content that a killed process has left in `folder`, if any."""
    return next(iter(sorted(folder.glob(f"{_OLD}*"))), None)
