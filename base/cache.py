"""A folder of finished things, kept by key, that several processes share."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UserError


def cached(cache: Path, key: str, make: Callable[[Path], None]) -> Path:
    """Folder `key` of `cache`; `make(folder)` fills it. One process makes it, others wait; half of it never
    shows."""
    target = cache / key
    if target.exists():
        return target
    with exclusive(cache, key):
        if not target.exists():
            # only the holder of the lock touches it: a leftover is from a killed process
            work = cache / f"{key}.work"
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                make(work)
                os.rename(work, target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return target


@contextmanager
def exclusive(folder: Path, name: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock `name` of `folder`; without `wait` a `UserError` when another process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / f"{name}.lock", "w")
    except OSError as error:
        raise UserError(
            f"the cache {folder} cannot be written ({error.strerror}); choose another folder (--cache)"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise UserError(
                f"{name} is used by another symlight process; wait until that has ended"
            ) from None
        yield
