"""What the command line shows while it works: progress on standard error, text on standard output."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from symlight.base.printable import printable

from ..library.completion import Token
from .plain import KEPT, PlainConsole

PIPE_WIDTH = 1000  # of a file or a pipe: nothing is cut or wrapped there


def stderr() -> PlainConsole:
    """The console of everything that is not a result."""
    return PlainConsole(stderr=True)


def stdout() -> Console:
    """The console of results."""
    console = PlainConsole()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


class _Lines:
    """Plain lines about the stages that take long, one when it begins and one when it ends."""

    PATIENCE = 2.0  # seconds; a stage that reports its very beginning takes longer

    def __init__(self, console: Console):
        self._console = console
        self._begun: dict[str, float] = {}
        self._told: set[str] = set()
        self._ended: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        spent = now - self._begun.setdefault(stage, now)
        if stage not in self._told and (not done or spent > self.PATIENCE):
            self._told.add(stage)
            self._console.print(f"{stage} ...", highlight=False)
        elif stage in self._told - self._ended and 0 < total <= done:
            self._ended.add(stage)
            self._console.print(f"{stage}: {spent:.0f} s", highlight=False)


class ProgressView:
    """A bar a stage; a plain line a long stage where standard error is no terminal. Itself a
    `host.device.machine.Progress`."""

    def __init__(self, console: Console):
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}
        self._lines = None if console.is_terminal else _Lines(console)

    def __enter__(self) -> "ProgressView":
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._lines is not None:
            self._lines(stage, done, total)
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(printable(stage), total=None, count="")
        finished = 0 < total <= done
        percent = f"{100 * done // total} %" if total > 1 and not finished else ""
        self._progress.update(self._tasks[stage], completed=done, total=total or None, count=percent)


@contextmanager
def waiting(console: Console, what: str) -> Iterator["Waiting"]:
    """A spinner until the block ends or somebody calls `stop`."""
    status = Waiting(console, what)
    try:
        yield status
    finally:
        status.stop()


class Waiting:
    """A spinner that goes away before the first output."""

    def __init__(self, console: Console, what: str):
        self._status = console.status(Text(printable(what))) if console.is_terminal else None
        if self._status is not None:
            self._status.start()

    def update(self, what: str) -> None:
        if self._status is not None:
            self._status.update(Text(printable(what)))

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


class TextOutput:
    """Tokens of one turn as text, or as ids where there is no tokenizer.

    Parameters
    ----------
    show : bool
        Write to standard output as they come.
    """

    def __init__(self, *, show: bool):
        self._show, self._shown = show, False

    def push(self, token: Token) -> None:
        self._write(f"{token.id} " if token.text is None else token.text)

    def finish(self) -> None:
        """After the last token: the end of the line if there is one."""
        if self._shown:
            self._write("\n")

    def _write(self, text: str) -> None:
        if self._show and text:
            self._shown = True
            # characters of a model steer no terminal; a file gets them as they are
            sys.stdout.write(printable(text, KEPT) if sys.stdout.isatty() else text)
            sys.stdout.flush()
