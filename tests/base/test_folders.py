"""base.folders: an older content stays until the new one is complete, and the folder keeps its place."""

import os
from pathlib import Path

import pytest

from symlight.base.folders import left_behind, written_whole

pytestmark = pytest.mark.timeout(20)


def write(path, **content):
    with written_whole(path) as folder:
        for name, text in content.items():
            (folder / name).write_text(text)


def content(path) -> dict[str, str]:
    return {file.name: file.read_text() for file in path.iterdir()}


def test_a_new_folder(tmp_path):
    write(tmp_path / "deep" / "new", a="1")
    assert content(tmp_path / "deep" / "new") == {"a": "1"} and os.listdir(tmp_path / "deep") == ["new"]
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "deep" / "new").stat().st_mode & 0o755 == 0o755


def test_a_folder_keeps_its_place(tmp_path, monkeypatch):
    """Of a link, and of whoever works in it."""
    write(tmp_path / "target", a="1", b="2")
    (tmp_path / "link").symlink_to("target")
    inode = (tmp_path / "target").stat().st_ino
    write(tmp_path / "link", a="3", c="4")
    assert (tmp_path / "link").is_symlink() and content(tmp_path / "target") == {"a": "3", "c": "4"}
    monkeypatch.chdir(tmp_path / "target")
    write(Path("."), d="5")
    assert os.listdir(".") == ["d"] and (tmp_path / "target").stat().st_ino == inode
    assert sorted(os.listdir(tmp_path)) == ["link", "target"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_failure_of_the_content_leaves_the_old_one(tmp_path, error):
    write(tmp_path / "f", a="1")
    with pytest.raises(error):
        with written_whole(tmp_path / "f") as folder:
            (folder / "a").write_text("half")
            raise error
    assert content(tmp_path / "f") == {"a": "1"}
    with pytest.raises(error):
        with written_whole(tmp_path / "new"):
            raise error
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("failing", range(6))
@pytest.mark.parametrize("when", ["before", "behind"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, PermissionError])
def test_a_failure_of_any_renaming_is_taken_back(tmp_path, monkeypatch, failing, when, error):
    write(tmp_path / "f", a="1", b="2", c="3")
    rename, count = os.rename, 0

    def break_once(source, target):
        nonlocal count
        count += 1
        if count == failing + 1 and when == "before":
            raise error
        rename(source, target)
        if count == failing + 1:
            raise error

    monkeypatch.setattr(os, "rename", break_once)
    with pytest.raises(error):
        write(tmp_path / "f", a="4", c="5", d="6")
    assert content(tmp_path / "f") == {"a": "1", "b": "2", "c": "3"}


def test_what_a_killed_process_left_is_found_and_cleared(tmp_path):
    write(tmp_path / "f", a="1")
    for name in (".symlight-new-x", ".symlight-old-x"):
        (tmp_path / "f" / name).mkdir()
        (tmp_path / "f" / name / "a").write_text("0")
    assert left_behind(tmp_path / "f") == tmp_path / "f" / ".symlight-old-x"
    write(tmp_path / "f", a="2")
    assert content(tmp_path / "f") == {"a": "2"} and left_behind(tmp_path / "f") is None
