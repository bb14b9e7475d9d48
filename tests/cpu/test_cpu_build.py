"""Compiling at first use: kept by content, and one clear sentence when it cannot be."""

import re
from dataclasses import replace

import pytest

from symlight.base.errors import UserError
from symlight.cpu import abi, isa
from symlight.cpu.build import LIBRARY, NoCompiler, build_library

PLAIN = isa.find("plain")


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "source" / "small.cpp"
    file.parent.mkdir()
    file.write_text('extern "C" int answer() { return 42; }\n')
    return file


def test_compiled_once(tmp_path, small):
    told = []

    def progress(*step):
        told.append(step)

    first = build_library(PLAIN, tmp_path / "cache", source=small, progress=progress)
    again = build_library(PLAIN, tmp_path / "cache", source=small, progress=progress)
    assert first == again and first.name == LIBRARY and told == [("compile", 0, 0), ("compile", 1, 1)]
    small.write_text('extern "C" int answer() { return 43; }\n')
    assert build_library(PLAIN, tmp_path / "cache", source=small) != first


def test_other_flags_are_another_library(tmp_path, small):
    one = build_library(PLAIN, tmp_path, source=small)
    assert build_library(replace(PLAIN, flags=("-DOTHER",)), tmp_path, source=small) != one


def test_no_compiler(tmp_path, small):
    with pytest.raises(NoCompiler, match=r"no-such-g\+\+ not found: .*--device reference"):
        build_library(PLAIN, tmp_path, source=small, compiler="no-such-g++")


def test_a_failed_compilation_says_why_and_leaves_nothing(tmp_path, small):
    small.write_text("int answer() { return forty_two; }\n")
    with pytest.raises(UserError, match=r"(?s)compiling the CPU engine: g\+\+ failed .*forty_two"):
        build_library(PLAIN, tmp_path / "cache", source=small)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_structures_are_written_as_python_has_them():
    text = abi.V2.header()
    for structure in abi.V2.structures:
        body = re.search(rf"struct {structure.__name__} {{(.*?)}};", text, re.DOTALL).group(1)
        assert re.findall(r"(\w+)(?:\[\d+\])?;", body) == [name for name, _ in structure._fields_]


def test_instruction_sets():
    assert isa.runnable()[-1].name == "plain" and isa.find(None) == isa.runnable()[0]
    with pytest.raises(UserError, match="cannot run the instruction set 'mmx'; it can run .*plain"):
        isa.find("mmx")
