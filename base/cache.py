"""A folder of finished things, kept by key, that several processes share.

    <room>/<key>/               what was made, and contents.json: size and SHA-256 of every file
    <room>/<key>.lock           held by the process that makes it
    <room>/<key>.work/          half of a thing; left behind only by a process that was killed

An entry is checked against its contents.json whenever it is asked for, and made again when it is damaged. The
checksums find accidents (full disks, crashes, cut files), not forgery.
"""

import fcntl
import hashlib
import json
import os
import pwd
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError, sentence

CONTENTS = "contents.json"
_LOCK, _WORK = ".lock", ".work"


def default_cache() -> Path:
    """Where symlight keeps what it generates and compiles: `symlight` in the user's cache folder.

    That is $XDG_CACHE_HOME, or ~/.cache when it is unset or relative. A `UserError` when there is no home.
    """
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (stated if stated.is_absolute() else _home() / ".cache") / "symlight"


def _home() -> Path:
    stated = Path(os.environ.get("HOME", ""))
    if stated.is_absolute():
        return stated
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise UserError(
            "this user has no home folder (HOME is not set, and there is no passwd entry); "
            "say where kernels are kept: --cache DIR"
        ) from None


def room(cache: Path | None, name: str) -> Path:
    """A folder of entries below `cache`; None: `default_cache()`."""
    return (default_cache() if cache is None else cache) / name


def cached(room: Path, key: str, make: Callable[[Path], None], *, sizes_only: bool = False) -> Path:
    """Folder `key` of `room`, whole and checked; `make(folder)` fills it if need be.

    One process makes it, others wait; half of it never shows. The path is absolute. `sizes_only` leaves the
    content to a caller who checks it while reading.
    """
    room = room.absolute()
    target = room / key
    if damage(target, sizes_only=sizes_only) is not None:
        with exclusive(room, key):
            if damage(target, sizes_only=sizes_only) is not None:
                _make(target, make)
    return target


def _make(target: Path, make: Callable[[Path], None]) -> None:
    # only the holder of the lock touches it: a leftover is from a killed process
    work = target.with_name(target.name + _WORK)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        make(work)
        (work / CONTENTS).write_text(
            json.dumps({"files": _contents(work)}, indent=1) + "\n", encoding="utf-8"
        )
        shutil.rmtree(target, ignore_errors=True)
        os.rename(work, target)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(target.parent)) from error  # a full disk has no name
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _contents(entry: Path) -> dict[str, dict]:
    files = sorted(file for file in entry.rglob("*") if file.is_file() and not file.is_symlink())
    return {
        str(file.relative_to(entry)): {"bytes": file.stat().st_size, "sha256": _sha256(file)}
        for file in files
        if file != entry / CONTENTS
    }


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def damage(entry: Path, *, sizes_only: bool = False) -> str | None:
    """What is wrong with an entry, in a few words; None when it is as it was made."""
    if not entry.is_dir():
        return "is not there"
    try:
        files = json.loads((entry / CONTENTS).read_text(encoding="utf-8"))["files"]
        for name, expected in files.items():
            file = entry / name
            if not file.is_file():
                return f"{name} is missing"
            size = file.stat().st_size
            if size != expected["bytes"]:
                return f"{name} has {size} bytes instead of {expected['bytes']}"
            if not sizes_only and _sha256(file) != expected["sha256"]:
                return f"{name} has changed since it was made"
    except FileNotFoundError:
        return f"{CONTENTS} is missing"
    except OSError as error:
        return sentence(error)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{CONTENTS} is damaged"
    return None


@dataclass(frozen=True)
class Entry:
    """A key of a room, finished or not."""

    room: Path
    key: str

    @property
    def path(self) -> Path:
        return self.room / self.key

    def damage(self) -> str | None:
        """As the function `damage`."""
        return damage(self.path)

    def bytes(self) -> int:
        """Size of all its files, those of an unfinished one included."""
        folders = (self.path, self.room / f"{self.key}{_WORK}")
        return sum(
            file.lstat().st_size for folder in folders for file in folder.rglob("*") if not file.is_dir()
        )

    def made(self) -> float | None:
        """When it was finished, in seconds after 1970; None of an unfinished one."""
        file = self.path / CONTENTS
        return file.stat().st_mtime if file.is_file() else None


def entries(cache: Path, rooms: Sequence[str]) -> list[Entry]:
    """Everything in these rooms of `cache`, finished or not; nothing that is not an entry.

    An entry has a contents.json, or the empty lock file under which it is made.
    """
    found: set[Entry] = set()
    for room in (cache / name for name in rooms):
        for path in room.iterdir() if room.is_dir() else ():
            if path.name.endswith(_LOCK) and path.is_file() and not path.stat().st_size:
                found.add(Entry(room, path.name.removesuffix(_LOCK)))
            elif (path / CONTENTS).is_file() and not path.name.endswith(_WORK):
                found.add(Entry(room, path.name))
    return sorted(found, key=lambda entry: (str(entry.room), entry.key))


def remove(room: Path, key: str) -> bool:
    """Remove an entry and what belongs to it; False when a process is making it just now."""
    try:
        with exclusive(room, key, wait=False):
            for folder in (room / key, room / f"{key}{_WORK}"):
                if folder.exists():
                    shutil.rmtree(folder)
            (room / f"{key}{_LOCK}").unlink(missing_ok=True)
    except InUse:
        return False
    return True


class InUse(UserError):
    """Another process holds the lock."""


@contextmanager
def exclusive(folder: Path, name: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock `name` of `folder`; without `wait` a `UserError` when another process has it."""
    while True:
        file = folder / f"{name}{_LOCK}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(file, "w")
        except OSError as error:
            raise UserError(
                f"the cache {folder} cannot be written ({error.strerror}); choose another folder (--cache)"
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise InUse(
                    f"{name} is used by another symlight process; wait until that has ended"
                ) from None
            if _is_at(lock.fileno(), file):
                yield
                return
            # whoever held it has removed the file: others would lock the new one


def _is_at(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
