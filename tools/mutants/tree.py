"""A copy of the repository in which files may be changed, with its tests and its Python packages."""

import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import symlight
from symlight.base import process

ROOT = Path(symlight.__file__).resolve().parent.parent
LEFT_OUT = (".git", ".venv", "build", "__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis")
SECONDS = 900  # of one run of tests; a mutant that takes longer is seen
_NOTHING_RAN = (3, 4, 5)  # exit codes of pytest: internal error, wrong use, no test


class Outcome(StrEnum):
    """What the tests said about a tree."""

    PASSED = "survived"
    FAILED = "seen"
    TIME = "seen (time)"


class Tree:
    """A copy at `root`; its builds are shared with the repository: they are kept by content."""

    def __init__(self, root: Path):
        self.root = root
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        (ROOT / "build").mkdir(exist_ok=True)
        (root / "build").symlink_to(ROOT / "build")
        # `symlight.room` is the folder `room`: as links, so that this copy is found before the installed one
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        for package, folder in project["tool"]["setuptools"]["package-dir"].items():
            if package.count(".") == 1:
                (root / "symlight" / package.partition(".")[2]).symlink_to(root / folder)

    def environment(self) -> dict[str, str]:
        """For programs that are to use the copy."""
        # a mutated file may be as long and as old as its original: no bytecode is kept
        return os.environ | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, tests: Sequence[str], seconds: float = SECONDS) -> tuple[Outcome, float, str]:
        """What the tests say, how long they took, and the end of their output."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        started = time.monotonic()
        done = process.run(command, self.root, environment=self.environment(), seconds=seconds)
        took = time.monotonic() - started
        if done.status == -signal.SIGKILL and took >= seconds:
            return Outcome.TIME, took, ""
        if done.status in _NOTHING_RAN or done.status < 0:
            raise RuntimeError(f"pytest {' '.join(tests)} ran no test:\n{done.output[-2000:]}")
        return Outcome.FAILED if done.status else Outcome.PASSED, took, done.output[-2000:]


@contextmanager
def copied() -> Iterator[Tree]:
    """A tree that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="symlight-mutants-") as folder:
        yield Tree(Path(folder) / "tree")
