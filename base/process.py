"""Commands of the system: in an environment that is cleaned, and never left running.

However this process ends (an exception, a signal, even SIGKILL), what it started ends with it: every command
runs under base/supervise.py, in a process group of its own.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NOT_FOUND = 127  # status of a command that could not be started
SECONDS_TO_END = 600.0  # of a command that has nothing more to answer
_SUPERVISE = Path(__file__).with_name("supervise.py")
# What a compiler may need; everything else could change what make, Verilator or a compiler do.
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
_KEPT_PREFIXES = ("CCACHE_", "DISTCC_", "ICECC_")
# What changes a compiler's result, and is the user's way to say where things are: kept, and part of a key.
_SEARCHED = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "SDKROOT",
)
_SEARCHED_PREFIXES = ("NIX_",)


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    Members
    -------
    status : int
        Its exit code; a negative number is the signal that ended it.
    lines : list of str
        What it said on either stream, with line ends.
    seconds : float
        Processor time of the command and of what it started.
    """

    status: int
    lines: list[str]
    seconds: float

    @property
    def output(self) -> str:
        return "".join(self.lines)


def build_environment() -> dict[str, str]:
    """The environment of compilers and make: what they need, and nothing else that the shell has."""
    kept = {
        name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
    return kept | searched_paths() | {"LC_ALL": "C"}


def searched_paths() -> dict[str, str]:
    """The part of `build_environment` that a compiler's result depends on."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in _SEARCHED or name.startswith(_SEARCHED_PREFIXES)
    }


def run(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    seconds: float | None = None,
) -> Finished:
    """Run a command in `folder` to its end; after `seconds` it is killed with all that it started.

    `environment`: default `build_environment()`. `on_line` is called with every line of output. An exception
    here kills the command, too. An `OSError` says that it could not be started.
    """
    watched, held = os.pipe()
    try:
        process = _start(
            command, folder, environment, watched, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        return _read(process, on_line, seconds)
    finally:
        os.close(held)


@contextmanager
def started(
    command: Sequence[str | Path],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """A command that answers: `stdin` and `stdout` are text pipes.

    Standard error is this process's, or with `quiet` nobody's.

    Afterwards its input is closed; if it does not end by itself within `SECONDS_TO_END`, or after an
    exception, it is killed with all that it started.
    """
    watched, held = os.pipe()
    try:
        errors = subprocess.DEVNULL if quiet else None
        process = _start(command, folder, environment, watched, stdin=subprocess.PIPE, stderr=errors)
        try:
            yield process
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended already
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_END)
        finally:
            _kill(process)
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr]  # both are pipes
    finally:
        os.close(held)


def _start(
    command: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str] | None,
    watched: int,
    *,
    stdin: int,
    stderr: int | None,
) -> subprocess.Popen[str]:
    """The command under its supervisor, which reads `watched`; that end is closed here."""
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISE), str(watched), *map(str, command)],
            cwd=folder,
            env=dict(build_environment() if environment is None else environment),
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            pass_fds=(watched,),
            stdin=stdin,
            stderr=stderr,
        )
    finally:
        os.close(watched)


def _kill(process: subprocess.Popen[str]) -> None:
    """End a command and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(
    process: subprocess.Popen, on_line: Callable[[str], None] | None, seconds: float | None
) -> Finished:
    output = process.stdout
    assert output is not None  # the caller asked for a pipe
    lines: list[str] = []
    late = None if seconds is None else threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
    try:
        if late is not None:
            late.start()
        for line in output:
            lines.append(line)
            if on_line:
                on_line(line)
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _kill(process)
        raise
    finally:
        if late is not None:
            late.cancel()
        output.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    return Finished(process.returncode, lines, usage.ru_utime + usage.ru_stime)
