"""base.files: an interrupted or failed write leaves the old file, and nothing beside it."""

import os
import re
import stat
from pathlib import Path

import pytest

from symlight.base.errors import UserError
from symlight.base.files import check_file, check_folder, read_bounded, write_whole

pytestmark = pytest.mark.timeout(10)


@pytest.mark.parametrize("content", ["zweite Fassung: ü\n", b"\0\xff"])
def test_a_file_is_replaced(tmp_path, content):
    file = tmp_path / "file"
    file.write_text("first")
    write_whole(file, content)
    assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert os.listdir(tmp_path) == ["file"]


def test_rights_are_those_of_an_ordinary_file(tmp_path):
    write_whole(tmp_path / "whole", "")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interruption_leaves_the_old_file_alone(tmp_path, monkeypatch, error):
    file = tmp_path / "file"
    file.write_text("first")

    def replace(*_):
        raise error

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(error):
        write_whole(file, "second")
    assert file.read_text() == "first" and os.listdir(tmp_path) == ["file"]


def test_links_and_rights_stay(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink() and target.read_text() == "new" and target.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "text")
    assert os.read(reader, 100) == b"text" and stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / "no" / "file", "x")
    assert caught.value.filename == str(tmp_path / "no" / "file") and caught.value.filename2 is None


def test_places_are_checked_before_the_work(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    for good in ("file", "new", "folder/new"):
        check_file(tmp_path / good)
    check_file(Path("/dev/null"))
    for good in ("folder", "new", "new/deep/folder"):
        check_folder(tmp_path / good)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and (tmp_path / "file").read_text() == "old"
    for bad, reason in (
        ("folder", "is a folder; give the name of a file"),
        ("no/file", "does not exist; make it"),
    ):
        with pytest.raises(UserError, match=reason):
            check_file(tmp_path / bad)
    with pytest.raises(UserError, match="is a file, a folder is needed"):
        check_file(tmp_path / "file" / "x")
    for bad in ("file", "file/x"):
        with pytest.raises((UserError, NotADirectoryError)):
            check_folder(tmp_path / bad)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_rights(tmp_path):
    tmp_path.chmod(0o500)
    for check in (check_file, check_folder):
        with pytest.raises(PermissionError):
            check(tmp_path / "x")


def test_reading_has_an_end(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_bounded(file, 5) == b"12345"
    with pytest.raises(UserError, match="has more than 4 bytes"):
        read_bounded(file, 4)
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="zero is a device, not a file"):
        read_bounded(tmp_path / "zero", 1 << 40)
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError, match=re.escape(str(path))):
            read_bounded(path, 9)
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(UserError, match="has more than 1,000 bytes"):
        read_bounded(file, 1000)
