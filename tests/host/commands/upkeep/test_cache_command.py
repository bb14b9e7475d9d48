"""`symlight cache`: shows, checks and empties."""

import pytest

from symlight.base.cache import CONTENTS, cached

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def kept(tmp_path):
    for room, key in (("kernels", "k1"), ("models", "m1"), ("cpu/weights", "w1")):
        cached(tmp_path / "cache" / room, key, lambda folder: (folder / "file").write_text("content"))
    return tmp_path / "cache"


def test_show(symlight, kept):
    shown = symlight("cache", "show", "--cache", kept, "--json").json
    assert [(entry["room"], entry["key"]) for entry in shown["entries"]] == [
        ("weights", "w1"),
        ("kernels", "k1"),
        ("models", "m1"),
    ]
    assert shown["bytes"] == sum(file.stat().st_size for file in kept.rglob("*") if file.is_file())
    said = symlight("cache", "show", "--cache", kept).out
    assert "kernels" in said and f"{kept}: 3 entries" in said


def test_the_cache_of_the_user_is_the_default(symlight, kept, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.parent))
    (kept.parent / "symlight").symlink_to(kept)
    assert "3 entries" in symlight("cache").out


def test_check(symlight, kept):
    assert symlight("cache", "check", "--cache", kept).code == 0
    (kept / "models" / "m1" / "file").write_text("cont")
    (kept / "kernels" / "k1" / CONTENTS).unlink()
    result = symlight("cache", "check", "--cache", kept)
    assert "2 of 3 entries are damaged or unfinished" in result.error(1)
    assert "file has 4 bytes instead of 7" in result.out and "contents.json is missing" in result.out


def test_empty(symlight, kept):
    (kept / "mine").write_text("not of the cache")
    result = symlight("cache", "empty", "--cache", kept)
    assert result.code == 0 and "removed" in result.out
    assert [file.name for file in kept.rglob("*") if file.is_file()] == ["mine"]
    assert symlight("cache", "show", "--cache", kept).out.endswith("0 entries, 0 bytes\n")
    assert symlight("cache", "show", "--cache", kept / "nothing").code == 0
