"""Commands of the system: nothing of the shell's environment reaches them, and they end with their caller."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from symlight.base import process
from symlight.base.errors import UserError
from symlight.base.tools import complaints, require_success

pytestmark = pytest.mark.timeout(60)


def test_output_and_status(tmp_path):
    seen = []
    finished = process.run(["sh", "-c", "echo one; echo two >&2; exit 3"], tmp_path, on_line=seen.append)
    assert (finished.status, finished.lines, finished.output) == (3, ["one\n", "two\n"], "one\ntwo\n")
    assert seen == finished.lines and finished.seconds < 5


def test_bytes_that_are_no_text(tmp_path):
    assert process.run(["printf", r"a\377b\n"], tmp_path).output == "a�b\n"


def test_a_command_that_is_not_there(tmp_path):
    finished = process.run(["no-such-command"], tmp_path)
    assert finished.status == 127 and finished.output == "no-such-command: No such file or directory\n"


def test_a_command_that_a_signal_ends(tmp_path):
    finished = process.run(["sh", "-c", "kill -KILL $$"], tmp_path)
    assert finished.status == -signal.SIGKILL
    with pytest.raises(UserError, match="doing: sh was killed by SIGKILL"):
        require_success("doing", "sh", finished)


def test_a_command_that_takes_too_long(tmp_path):
    began = time.monotonic()
    assert process.run(["sh", "-c", "sleep 50 & sleep 50"], tmp_path, seconds=0.5).status == -signal.SIGKILL
    assert time.monotonic() - began < 20


def test_a_command_that_answers(tmp_path):
    with process.started(["cat"], tmp_path) as cat:
        for line in ("one\n", "zwölf\n"):
            cat.stdin.write(line)
            cat.stdin.flush()
            assert cat.stdout.readline() == line
    assert cat.returncode is not None and cat.stdin.closed and cat.stdout.closed


def test_an_answering_command_ends_with_the_block(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "SECONDS_TO_END", 0.3)
    for error in (None, KeyError):
        with pytest.raises(error) if error else suppress():
            with process.started(["sh", "-c", "sleep 60 & echo $!; sleep 60"], tmp_path) as shell:
                child = int(shell.stdout.readline())
                assert Path(f"/proc/{child}").exists()
                if error:
                    raise error
        assert shell.returncode == -signal.SIGKILL
        until = time.monotonic() + 10
        while running(child):
            assert time.monotonic() < until, "a process was left"
            time.sleep(0.02)


def running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_environment_of_builds(monkeypatch):
    for name in (
        "OBJCACHE",
        "LDFLAGS",
        "CPPFLAGS",
        "CXXFLAGS",
        "CXX",
        "GNUMAKEFLAGS",
        "MAKEFLAGS",
        "MAKELEVEL",
    ):
        monkeypatch.setenv(name, "leaks")
    monkeypatch.setenv("CCACHE_DIR", "/ccache")
    monkeypatch.setenv("CPATH", "/include")
    found = process.build_environment()
    assert "leaks" not in found.values() and found["LC_ALL"] == "C" and found["PATH"] == os.environ["PATH"]
    assert found["CCACHE_DIR"] == "/ccache"
    assert found["CPATH"] == "/include" and process.searched_paths()["CPATH"] == "/include"


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_exception_ends_the_command(tmp_path, error):
    def fail(line):
        pids.append(int(line))
        raise error

    pids = []
    with pytest.raises(error):
        process.run(["sh", "-c", "sleep 50 & echo $!; wait"], tmp_path, on_line=fail)
    assert gone(pids[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_killed_caller_leaves_nothing_running(tmp_path, number):
    """Also what the command itself started, here by a shell in the background."""
    code = (
        "import sys; from pathlib import Path; from symlight.base import process\n"
        "process.run(['sh', '-c', 'sleep 50 & echo $!; sleep 50'], Path('.'),"
        " on_line=lambda line: print(line, end='', flush=True))"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    pid = int(caller.stdout.readline())
    assert not gone(pid, 0)
    caller.send_signal(number)
    assert caller.wait(timeout=20) == -number
    assert gone(pid)


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends within `seconds`; one that only waits to be collected has ended."""
    until = time.monotonic() + seconds
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)


def test_the_cause_is_shown_whatever_words_it_has():
    planned = ["ccache g++ -c a.cpp", "ccache g++ -c b.cpp"]
    lines = [*planned, "/bin/sh: 1: ccache: not found", "make: *** [x.mk:9: a.o] Error 127"]
    told = complaints([line + "\n" for line in lines], planned)
    assert told == "/bin/sh: 1: ccache: not found\nmake: *** [x.mk:9: a.o] Error 127"


def test_of_much_output_the_telling_lines_are_shown():
    lines = [f"note {i}\n" for i in range(100)] + [
        "ld: cannot find -lm\n",
        "collect2: error: ld returned 1\n",
    ]
    assert complaints(lines) == "ld: cannot find -lm\ncollect2: error: ld returned 1"
    assert complaints(lines[:100]).splitlines()[-1] == "note 99"
