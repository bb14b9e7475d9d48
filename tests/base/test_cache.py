"""The cache that processes share, and its locks."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from symlight.base import cache
from symlight.base.cache import CONTENTS, cached, damage, default_cache, entries, exclusive, remove
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


# ---- what is kept is checked -------------------------------------------------------------------------------


def fill(folder):
    (folder / "deep").mkdir()
    (folder / "a").write_bytes(b"content")
    (folder / "deep" / "b").write_bytes(b"more")


def cut(entry):
    (entry / "a").write_bytes(b"cont")


def empty(entry):
    (entry / "deep" / "b").write_bytes(b"")


def flip(entry):
    (entry / "a").write_bytes(b"contenT")


def lose(entry):
    (entry / "a").unlink()


def replace(entry):
    (entry / "a").unlink()
    (entry / "a").mkdir()


def forget(entry):
    (entry / CONTENTS).unlink()


def half_a_list(entry):
    (entry / CONTENTS).write_text('{"files": {"a": {"byt')


def odd_list(entry):
    (entry / CONTENTS).write_text('{"files": {"a": 5}}')


@pytest.mark.parametrize(
    "harm, told",
    [
        (cut, "a has 4 bytes instead of 7"),
        (empty, "deep/b has 0 bytes instead of 4"),
        (flip, "a has changed"),
        (lose, "a is missing"),
        (replace, "a is missing"),
        (forget, "contents.json is missing"),
        (half_a_list, "contents.json is damaged"),
        (odd_list, "contents.json is damaged"),
    ],
)
def test_what_is_damaged_is_made_again(tmp_path, harm, told):
    entry = cached(tmp_path, "key", fill)
    assert damage(entry) is None
    harm(entry)
    assert damage(entry).startswith(told)
    assert cached(tmp_path, "key", fill) == entry and damage(entry) is None
    assert (entry / "a").read_bytes() == b"content" and (entry / "deep" / "b").read_bytes() == b"more"


def test_a_folder_alone_does_not_count(tmp_path):
    (tmp_path / "key").mkdir()
    assert cached(tmp_path, "key", fill) == tmp_path / "key" and damage(tmp_path / "key") is None


def test_a_relative_cache_gives_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cached(Path("rel"), "key", fill) == tmp_path / "rel" / "key"


ROOMS = (".", "deep/room", "no/room")


def test_entries_are_listed_and_removed(tmp_path):
    cached(tmp_path, "one", fill)
    cached(tmp_path / "deep" / "room", "three", fill)
    with pytest.raises(ZeroDivisionError):
        cached(tmp_path, "two", lambda folder: 1 / 0)
    (tmp_path / "two.work").mkdir()  # a process was killed
    (tmp_path / "two.work" / "half").write_text("1234")
    (tmp_path / "poetry.lock").write_text("somebody's")
    (tmp_path / "somebody's").mkdir()
    (tmp_path / "somebody's" / "file").write_text("")
    found = entries(tmp_path, ROOMS)
    assert [(entry.room, entry.key) for entry in found] == [
        (tmp_path, "one"),
        (tmp_path, "two"),
        (tmp_path / "deep" / "room", "three"),
    ]
    assert [entry.damage() for entry in found] == [None, "is not there", None] and found[1].bytes() == 4
    assert found[0].made() and not found[1].made() and entries(tmp_path / "nothing", ROOMS) == []
    with exclusive(tmp_path, "one"):
        assert not remove(tmp_path, "one")
    assert all(remove(entry.room, entry.key) for entry in found) and entries(tmp_path, ROOMS) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "poetry.lock", "somebody's"]


def test_a_lock_whose_file_was_removed_is_no_lock(tmp_path, monkeypatch):
    """One waits for a lock that its holder then removes: it must lock the new file, as others do."""
    locked = cache.fcntl.flock

    def removed_meanwhile(lock, how):
        locked(lock, how)
        monkeypatch.setattr(cache.fcntl, "flock", locked)
        (tmp_path / "key.lock").unlink()

    monkeypatch.setattr(cache.fcntl, "flock", removed_meanwhile)
    with exclusive(tmp_path, "key"), pytest.raises(UserError, match="used by another"):
        with exclusive(tmp_path, "key", wait=False):
            pass


# ---- where it is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stated, home, expected",
    [
        (None, "/home/me", "/home/me/.cache/symlight"),
        ("/caches", "/home/me", "/caches/symlight"),
        ("/caches", None, "/caches/symlight"),
        ("relative", "/home/me", "/home/me/.cache/symlight"),
        ("", "/home/me", "/home/me/.cache/symlight"),
    ],
)
def test_the_folder_of_the_user(monkeypatch, stated, home, expected):
    for name, value in (("XDG_CACHE_HOME", stated), ("HOME", home)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert default_cache() == Path(expected)


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_a_user_without_a_home(monkeypatch, home):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False) if home is None else monkeypatch.setenv("HOME", home)
    assert default_cache() == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "symlight"

    def nobody(_):
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(UserError, match="no home folder .*--cache DIR"):
        default_cache()
