"""The cache that processes share, and its locks."""

import os
import subprocess
import sys

import pytest

from symlight.base.cache import cached, exclusive
from symlight.base.errors import UserError

pytestmark = pytest.mark.timeout(120)


def test_the_cache_makes_a_thing_once(tmp_path):
    calls = []

    def make(folder):
        calls.append(folder)
        (folder / "file").write_text("x")

    assert cached(tmp_path, "key", make) == cached(tmp_path, "key", make) == tmp_path / "key"
    assert len(calls) == 1 and (tmp_path / "key" / "file").read_text() == "x"


def test_half_a_thing_never_shows(tmp_path):
    def fail(folder):
        (folder / "file").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, "key", fail)
    assert not (tmp_path / "key").exists() and not (tmp_path / "key.work").exists()
    (tmp_path / "key.work").mkdir()  # a process was killed
    assert (
        cached(tmp_path, "key", lambda folder: (folder / "file").write_text("whole")) / "file"
    ).read_text() == "whole"


def test_two_processes_make_a_thing_once(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from symlight.base.cache import cached\n"
        "def make(folder):\n    time.sleep(0.3); print('made', flush=True)\n"
        "    (folder / 'file').write_text('x')\n"
        "cached(Path(sys.argv[1]), 'key', make)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    output = [process.communicate(timeout=60)[0] for process in processes]
    assert sorted(output) == ["", "made\n"] and all(process.returncode == 0 for process in processes)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="--cache"):
        cached(tmp_path / "cache", "key", lambda folder: None)


def test_a_cache_in_the_way_of_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--cache"):
        cached(tmp_path / "file" / "cache", "key", lambda folder: None)


def test_a_lock_that_is_held(tmp_path):
    with exclusive(tmp_path, "device 0"), pytest.raises(UserError, match="used by another symlight process"):
        with exclusive(tmp_path, "device 0", wait=False):
            pass
