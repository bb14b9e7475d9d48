"""What every program of symlight does around its commands: standard streams, signals, errors as sentences,
exit codes.

    0 done    1 a verification found a difference    2 an error that the user can mend
    128 + n   ended by signal n (Ctrl-C: 130, TERM: 143, HUP: 129), or by a reader that has gone (141)
"""

import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import click
from click.shell_completion import shell_complete

from .errors import UserError, sentence
from .files import naming
from .printable import printable

EXIT_ERROR = UserError.exit_code
_SIGNALLED = 128  # and the number of the signal
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Ended(KeyboardInterrupt):
    """The process was asked to end by a signal other than Ctrl-C; whoever holds something gives it back."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


def main(command: click.Command, name: str) -> None:
    """Entry point of a program: runs the command line of this process and exits."""
    open_streams(name)
    code = run(command, name)
    # Nothing is left to say, and what cannot be written must not be tried again at the end of the process.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def run(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line; whatever the user can mend is one sentence on standard error."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with _endings():
        try:
            code = _invoke(command, name, arguments)
            sys.stdout.flush()
            return code
        except UserError as error:
            return _complain(name, str(error), error.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            return _complain(None, error.format_message(), EXIT_ERROR)
        except click.ClickException as error:
            return _complain(name, error.format_message(), EXIT_ERROR)
        except Ended as end:
            return _complain(name, f"ended by {signal.Signals(end.number).name}", _SIGNALLED + end.number)
        except (KeyboardInterrupt, click.Abort):
            return _complain(name, "interrupted", _SIGNALLED + signal.SIGINT)
        except BrokenPipeError:  # the reader has enough: no error, but not the whole result either
            return _SIGNALLED + signal.SIGPIPE
        except OSError as error:
            return _complain(name, sentence(error), EXIT_ERROR)
        except MemoryError as error:
            reason = f" ({error})" if str(error) else ""
            return _complain(
                name, f"out of memory{reason}; end other programs, or take a smaller model", EXIT_ERROR
            )


def _invoke(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """As `click.Command.main`, but without its own way with signals and closed pipes."""
    variable = f"_{name.upper().replace('-', '_')}_COMPLETE"
    if variable in os.environ:  # the shell asks for completions
        return shell_complete(command, {}, name, variable, os.environ[variable])
    try:
        with command.make_context(name, list(arguments)) as context:
            return command.invoke(context) or 0
    except click.exceptions.Exit as end:
        return end.exit_code


def _complain(name: str | None, text: str, code: int) -> int:
    with suppress(OSError, ValueError):  # standard error may be full or closed: the exit code still tells
        text = printable(text, keep="\n\t")  # it may repeat words of the command line
        print(text if name is None else f"{name}: {text}", file=sys.stderr, flush=True)
    return code


@contextmanager
def _endings() -> Iterator[None]:
    """Inside, TERM and HUP raise `Ended`; the second one ends the process at once. An ignored signal (nohup)
    stays ignored."""
    before: dict[int, Any] = {}

    def on_signal(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise Ended(number)

    with suppress(ValueError):  # not the main thread: signals are somebody else's
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, on_signal)
    try:
        yield
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)


class _StandardOutput(io.TextIOWrapper):
    """Standard output whose errors say what they are about."""

    def write(self, text: str) -> int:
        with naming(Path("standard output")):
            return super().write(text)

    def flush(self) -> None:
        with naming(Path("standard output")):
            super().flush()


class _StandardError(io.TextIOWrapper):
    """Standard error that a command does not depend on: what cannot be written there is lost."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def open_streams(name: str) -> None:
    """Give closed standard streams something to stand on, and the others errors that say what is wrong.

    A file that is opened later would take the place of a closed stream, and get what is printed. Closed input
    reads as empty and closed standard error goes nowhere, but a result needs somewhere to go.
    """
    closed = []
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            closed.append(descriptor)
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb"), encoding="utf-8")
    sys.stderr = _text(_StandardError, 2, sys.stderr)
    sys.stdout = _text(_StandardOutput, 1, sys.stdout)
    if 1 in closed:
        sys.exit(_complain(name, "standard output is closed; give it a file or a pipe", EXIT_ERROR))


def _text(kind: type[io.TextIOWrapper], descriptor: int, old: TextIO | None) -> TextIO:
    """A text stream with the settings of the one that Python made."""
    encoding, errors, by_line = (
        ("utf-8", "backslashreplace", True) if old is None else (old.encoding, old.errors, old.line_buffering)
    )
    return kind(os.fdopen(descriptor, "wb", closefd=False), encoding, errors, line_buffering=bool(by_line))
