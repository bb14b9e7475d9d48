"""Commands that write packages: nothing is replaced unasked, nothing is lost, the place is checked first."""

import pytest

from symlight.host.device.packages import open_package
from symlight.model import synthetic

pytestmark = pytest.mark.timeout(120)
COMMAND = ("random-model", "--model", "tiny", "--density", 0.3)


def test_a_package_is_replaced_when_asked(symlight, tmp_path, monkeypatch):
    out = tmp_path / "p"
    assert symlight(*COMMAND, "--seed", 1, "--out", out).code == 0
    first = open_package(str(out)).digest
    assert "holds a package already" in symlight(*COMMAND, "--seed", 2, "--out", out).error()
    assert open_package(str(out)).digest == first
    (tmp_path / "link").symlink_to(out)
    assert symlight(*COMMAND, "--seed", 2, "--out", tmp_path / "link", "--force").code == 0
    assert open_package(str(out)).digest != first and (tmp_path / "link").is_symlink()
    monkeypatch.chdir(out)
    assert symlight(*COMMAND, "--seed", 1, "--out", ".", "--force").code == 0
    package = open_package(".")
    assert package.meta.name == "p" and sorted(path.name for path in tmp_path.iterdir()) == ["link", "p"]


@pytest.mark.parametrize(
    "command",
    [
        COMMAND,
        ("quantise", "/nothing.safetensors"),
        ("import-v1", "/nothing.pt", "--tokenizer", "/nothing.model"),
    ],
)
def test_places_are_refused_before_the_work(symlight, tmp_path, monkeypatch, command):
    def dear(*_, **__):
        raise AssertionError("too late")

    monkeypatch.setattr(synthetic, "calibrated", dear)
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    for place, sentence in (
        ("file", "exists and is not a folder; choose another place"),
        ("other", "exists and is not a package; choose another place"),
        ("file/x", "is a file, a folder is needed there"),
        ("n" * 300, "file name too long"),
    ):
        assert sentence in symlight(*command, "--out", tmp_path / place, "--force").error()


def test_a_killed_replacement_says_where_the_package_is(symlight, tmp_path):
    out = tmp_path / "p"
    assert symlight(*COMMAND, "--out", out).code == 0
    (out / ".symlight-new-x").mkdir()
    assert symlight("inspect", out).code == 0, "half of a new one does no harm"
    (out / ".symlight-old-x").mkdir()
    for file in [path for path in out.iterdir() if path.is_file()]:
        file.rename(out / ".symlight-old-x" / file.name)
    assert f"the older package is whole in {out}/.symlight-old-x" in symlight("inspect", out).error()


def test_a_training_is_replaced_when_asked(symlight, tmp_path):
    out = tmp_path / "t"
    command = ("train", "--out", out, "--corpus", tmp_path / "none", "--steps", 1)
    out.mkdir()
    (out / "tokenizer.model").write_text("mine")
    assert "there is no corpus file" in symlight(*command).error()  # no training yet
    for name in ("model.safetensors", "train.json"):
        (out / name).write_text("mine")
        sentence = symlight(*command).error()
        assert f"holds {name} of an earlier training" in sentence and "--force" in sentence
        (out / "resume.pt").write_text("mine")
        assert "there is no corpus file" in symlight(*command).error()  # it would be resumed
        assert "there is no corpus file" in symlight(*command, "--force").error()
        assert (out / name).read_text() == "mine" and not (out / "resume.pt").exists()
        (out / name).unlink()


@pytest.mark.parametrize(
    "command",
    [
        (*COMMAND, "--out", ""),
        ("train", "--out", ""),
        ("verilog", "--out", ""),
        ("bench", "--out", ""),
        ("generate", "--prompt", "a", "--save-state", ""),
        ("generate", "--prompt-file", ""),
        ("eval", "demo", "x", "--cache", ""),
        ("serve", "--api-key-file", ""),
    ],
    ids=lambda words: words[0] + words[-2],
)
def test_an_empty_path_is_no_path(symlight, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    assert "the path is empty; give one" in symlight(*command).error()
    assert not list(tmp_path.iterdir())
