"""base.files: an interrupted or failed write leaves the old file, and nothing beside it."""

import os

import pytest

from symlight.base.files import write_whole

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
