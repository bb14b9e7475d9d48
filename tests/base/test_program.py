"""What every command does about standard streams, signals and errors of the system: run as processes."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap

import click
import pytest

from symlight.base.errors import UserError, in_words, sentence
from symlight.base.program import run

pytestmark = pytest.mark.timeout(60)
COMMAND = """
    import sys, time
    from pathlib import Path
    import click
    from symlight.base import program
    from symlight.base.files import write_whole

    @click.command()
    @click.argument("what")
    @click.argument("file", required=False)
    def command(what, file):
        if what == "print":
            for _ in range(100000):
                click.echo("a line")
        elif what == "short":
            click.echo("a line")
        elif what == "read":
            click.echo(repr(sys.stdin.read()))
        elif what == "write":
            write_whole(Path(file), "x" * 100000)
        elif what == "sleep":
            try:
                click.echo("ready")
                sys.stdout.flush()
                time.sleep(60)
            finally:
                click.echo("given back")

    program.main(command, "test")
"""


@pytest.fixture
def start(tmp_path):
    """start(arguments, **popen) -> a process of the command above."""
    file = tmp_path / "command.py"
    file.write_text(textwrap.dedent(COMMAND))

    def begin(*arguments, shell="", **options) -> subprocess.Popen:
        command = [sys.executable, str(file), *map(str, arguments)]
        if shell:
            command = ["sh", "-c", f'exec "$@" {shell}', "sh", *command]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        return subprocess.Popen(command, **pipes)

    return begin


def ended(process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in err and "Exception" not in err
    return process.returncode, out, err


@pytest.mark.parametrize("what", ["print", "short"])
def test_full_standard_output(start, what):
    code, _, err = ended(start(what, shell=">/dev/full"))
    assert code == 2 and err.startswith("test: standard output: no space left on device; free some space")


def test_closed_standard_output_is_refused_at_once(start, tmp_path):
    code, _, err = ended(start("write", tmp_path / "file", shell=">&-"))
    assert code == 2 and err == "test: standard output is closed; give it a file or a pipe\n"
    assert not (tmp_path / "file").exists()


def test_closed_standard_input_is_empty(start):
    assert ended(start("read", shell="<&-")) == (0, "''\n", "")


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_standard_error_does_not_decide(start, where):
    assert ended(start("short", shell=where)) == (0, "a line\n", "")
    assert ended(start("write", "/nothing/there", shell=where))[0] == 2


def test_a_reader_that_has_enough(start):
    process = start("print")
    assert process.stdout.readline() == "a line\n"
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(timeout=30) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_give_back_what_is_held(start, number):
    process = start("sleep")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    code, out, err = ended(process)
    said = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert (code, out, err) == (128 + number, "given back\n", f"test: {said}\n")


def test_an_ignored_signal_stays_ignored(start):
    process = start("sleep", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 128 + signal.SIGTERM


def test_no_room_for_a_file(start, tmp_path):
    """The old file stays, the message names it, nothing else is left."""
    file = tmp_path / "result"
    file.write_text("old")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731  in the child
    code, _, err = ended(start("write", file, preexec_fn=limit))
    assert (
        code == 2 and err == f"test: {file}: file too large; free some space there, or choose another place\n"
    )
    assert file.read_text() == "old" and sorted(p.name for p in tmp_path.iterdir()) == [
        "command.py",
        "result",
    ]


@pytest.mark.parametrize(
    "file, reason",
    [
        ("{}/command.py/x", "not a directory"),
        ("{}/" + "n" * 300, "file name too long"),
        ("{}/no/x", "no such file or directory"),
        ("{}", "is a directory"),
    ],
)
def test_places_that_do_not_do(start, tmp_path, file, reason):
    code, _, err = ended(start("write", file.format(tmp_path)))
    assert code == 2 and err.startswith(f"test: {file.format(tmp_path)}: {reason}; ")


# ---- in this process ---------------------------------------------------------------------------------------


def failing(error: BaseException) -> click.Command:
    @click.command()
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    "error, code, said",
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 2, "/x/y: no space left on device; free"),
        (OSError(errno.EXDEV, "Cross-device link", "/a", None, "/b"), 2, "/a to /b: cross-device link"),
        (OSError("odd"), 2, "the operating system: odd"),
        (MemoryError(), 2, "out of memory; end other programs"),
        (UserError("a sentence"), 2, "a sentence"),
        (click.UsageError("no such thing"), 2, "no such thing"),
        (click.exceptions.Exit(7), 7, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(capsys, error, code, said):
    assert run(failing(error), "test", []) == code
    assert capsys.readouterr().err.startswith(f"test: {said}" if said else "")


def test_a_defect_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        run(failing(ZeroDivisionError()), "test", [])


def test_signals_are_given_back():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    run(failing(UserError("x")), "test", [])
    assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]


def test_errors_in_words_for_callers():
    with (
        pytest.raises(UserError, match=r"^/nothing/there: no such file or directory; check the path$"),
        in_words(),
    ):
        open("/nothing/there")


def test_every_remedy_is_a_sentence_of_its_own():
    for number in errno.errorcode:
        said = sentence(OSError(number, os.strerror(number), "F"))
        assert said.startswith("F: ") and not said.endswith((".", ";"))
