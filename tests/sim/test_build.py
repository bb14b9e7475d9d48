"""The cache of built simulators and the manifest of a kernel folder."""

import json
import shutil

import pytest

from symlight.base.errors import UserError
from symlight.sim import build
from symlight.sim.manifest import read_kernel

pytestmark = pytest.mark.timeout(60, func_only=True)  # not of what the fixtures build


def test_second_build_is_the_first(standin, library, monkeypatch):
    def never(*_):
        raise AssertionError("built again")

    monkeypatch.setattr(build.Tools, "verilate", never)
    assert build.build_model(standin.sources, standin.engine, library.parents[1]) == library
    with pytest.raises(AssertionError, match="built again"):
        build.build_model(standin.sources, standin.engine, library.parents[1], assertions=False)


def test_key_follows_content():
    base = build._key(["-O3"], {"a.v": b"1", "b.v": b"2"})
    others = [
        (["-O2"], {"a.v": b"1", "b.v": b"2"}),
        (["-O3"], {"a.v": b"12", "b.v": b""}),
        (["-O3"], {"a.v": b"1"}),
    ]
    assert base not in [build._key(*other) for other in others]


class Interrupt(BaseException):
    pass


def test_interrupted_build_leaves_nothing(tmp_path):
    def interrupted(folder):
        (folder / "x.so").write_text("half")
        raise Interrupt

    def whole(folder):
        assert not list(folder.iterdir()), "leftovers of an earlier build"
        (folder / "x.so").write_text("whole")
        return folder / "x.so"

    with pytest.raises(Interrupt):
        build._cached(tmp_path, "k", "x.so", interrupted)
    assert [p.name for p in tmp_path.iterdir()] == ["k.lock"]
    (tmp_path / "k.work").mkdir()  # what a killed process leaves
    (tmp_path / "k.work" / "build").mkdir()
    assert build._cached(tmp_path, "k", "x.so", whole).read_text() == "whole"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k", "k.lock"]


def test_missing_tools_are_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError, match=r"g\+\+ and make not found; install them"):
        build.Tools()


def test_bad_verilog_says_what_is_wrong(tmp_path, standin):
    source = tmp_path / "bad.v"
    source.write_text("module symlight(input ap_clk); garbage\nendmodule\n")
    with pytest.raises(UserError, match=r"(?s)verilator_bin failed.*rtl0.v:[12]"):
        build.build_model([source], standin.engine, tmp_path / "cache")
    with pytest.raises(UserError, match="no Verilog"):
        build.build_model(tmp_path / "nothing", standin.engine, tmp_path / "cache")


def test_progress_tells_stages(tmp_path, standin, monkeypatch):
    """Stages in order, compile steps counted to the end (the tools are replaced: no compiler runs)."""

    def run(self, command, folder, on_line=None, echoed=()):
        lines = ["g++ -c a.cpp", "echo", "g++ -c b.cpp", "g++ -shared"]
        for line in lines if on_line else ():
            on_line(line)
        if command[0] == "make":
            (folder / build.LIBRARY).write_text("")
        if "--cc" in command:
            (folder / "objects").mkdir()
        return "\n".join(lines)

    monkeypatch.setattr(build.Tools, "run", run)
    told = []
    build.build_model(standin.sources, standin.engine, tmp_path, progress=lambda *event: told.append(event))
    assert told == [("verilate", 0, 0), ("verilate", 1, 1), ("compile", 1, 2), ("compile", 2, 2)]


def test_manifest_round_trip(standin):
    again = read_kernel(standin.path)
    assert again == read_kernel(standin.path / "manifest.json") == standin
    assert again.uuid == "01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"format_version": 2}, "format_version"),
        ({"kernel": "other"}, "other"),
        ({"build_id": "12"}, "build_id"),
        ({"files": {"symlight.v": {"sha256": "0"}}}, "not the file"),
        ({"files": {"x.v": {"sha256": "0"}}}, "x.v does not exist, but manifest.json lists it"),
        ({"engine": {"channels": 1}}, "engine"),
        ({"files": []}, "objects"),
        ({"files": {"symlight.v": 1}}, "sha256"),
    ],
)
def test_bad_manifest_is_refused(tmp_path, standin, change, message):
    shutil.copytree(standin.path, tmp_path / "k")
    file = tmp_path / "k" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match=message):
        read_kernel(tmp_path / "k")


def test_manifest_that_is_no_json_or_absent(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_kernel(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="is not readable JSON"):
        read_kernel(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format_version": 1}')
    with pytest.raises(UserError, match="missing"):
        read_kernel(tmp_path)
