"""Builds in surroundings that are not ours: odd paths, an environment full of make's variables, tools that
fail."""

import os
import shutil
import stat
import sys

import pytest

from symlight.base.cache import damage
from symlight.base.errors import UserError
from symlight.base.tools import Tools
from symlight.sim import build

pytestmark = pytest.mark.timeout(200)
ODD = "sym light (ü) $x #1's"
TINY = "module tiny(input a, output b); assign b = a; endmodule\n"
OPTIONS = ("-Mdir", "objects", "--cc", "--prefix", "Vtiny", "--build-jobs", "1", "tiny.v")


def compiler(**optimisations) -> build._Compiler:
    return build._Compiler(Tools(), {"OPT_FAST": "-O0", "OPT_GLOBAL": "-O0"} | optimisations, 1, None)


def recipe(result: str = "libVtiny.a") -> build._Recipe:
    return build._Recipe("Vtiny", {"tiny.v": TINY.encode()}, OPTIONS, result)


def build_tiny(cache, compiler: build._Compiler, result: str = "libVtiny.a"):
    return build._cached(
        cache, "key", "objects", lambda folder: build._product(compiler.build(recipe(result), folder))
    )


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A folder with an odd name that holds Verilator and Python, too, as a clone does."""
    folder = tmp_path / ODD
    folder.mkdir()
    (folder / "verilator").symlink_to(Tools().root)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


def test_odd_paths_and_a_leaking_environment(odd, monkeypatch):
    """Everything that make would take from the shell is set to something that fails."""
    for name in ("OBJCACHE", "CXX", "LINK", "AR"):
        monkeypatch.setenv(name, "no-such-program")
    for name in ("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS", "VM_USER_CFLAGS", "USER_CPPFLAGS", "OPT"):
        monkeypatch.setenv(name, "-no-such-option")
    for name in ("MAKEFLAGS", "GNUMAKEFLAGS"):
        monkeypatch.setenv(name, "-n")
    monkeypatch.setenv("MAKEFILES", "/nothing")
    tools = Tools()
    tools.root = odd / "verilator"
    objects = build_tiny(odd / "cache", build._Compiler(tools, {"OPT_FAST": "-O0"}, 1, None))
    names = {file.name for file in objects.iterdir()}
    assert {"libVtiny.a", "Vtiny.h"} <= names and all(name.endswith((".a", ".h")) for name in names)
    assert damage(objects.parent) is None
    assert sorted(path.name for path in (odd / "cache").iterdir()) == ["key", "key.lock"]


def fake(folder, name: str, script: str):
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_a_make_that_does_nothing_is_noticed(tmp_path, monkeypatch):
    fake(tmp_path, "make", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(UserError, match="make ended well, but did not write libVtiny.a"):
        build_tiny(tmp_path / "cache", compiler())
    assert not (tmp_path / "cache" / "key").exists()


def test_the_cause_of_a_failed_build_is_shown(tmp_path, monkeypatch):
    fake(
        tmp_path,
        "g++",
        '[ "$1" = --version ] && exit 0; echo "g++: internal trouble with plugin x" >&2; exit 4',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(
        UserError, match=r"(?s)make failed with status 2\n.*internal trouble with plugin x"
    ) as caught:
        build_tiny(tmp_path / "cache", compiler())
    assert " -c " not in str(caught.value), "what make does is no cause"


def test_the_key_follows_the_compiler_and_where_it_looks(tmp_path, monkeypatch):
    before = compiler().key(recipe())
    monkeypatch.setenv("LDFLAGS", "-lother")
    assert compiler().key(recipe()) == before, "it does not reach the build"
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert compiler().key(recipe()) != before
    monkeypatch.delenv("CPATH")
    fake(tmp_path, "g++", "echo another g++")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert compiler().key(recipe()) != before


def test_a_damaged_library_is_built_again(tmp_path, standin, library):
    """The kept library of the stand-in, cut as a full disk would: loading it would end in SIGBUS."""
    shutil.copytree(library.parent, tmp_path / library.parent.name)
    kept = tmp_path / library.parent.name / library.name
    with open(kept, "r+b") as file:
        file.truncate(kept.stat().st_size // 2)
    told = []

    class Asked(Exception):
        pass

    def make(*arguments):
        told.append(arguments)
        raise Asked

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Asked):
        patch.setattr(build.Tools, "verilate", make)
        build.build_model(standin.sources, standin.engine, tmp_path)
    assert told
