"""tools.typecheck: what each level refuses, in a project of two rooms with this project's settings."""

import tomllib

import pytest

from symlight.tools.typecheck import LEFT_OUT, check, rooms
from tests.benches.places import ROOT

pytest.importorskip("mypy", reason="mypy (extra `lint`) is not installed")
pytestmark = pytest.mark.timeout(300)

FOLDERS = """
[tool.setuptools.package-dir]
"symlight" = "symlight"
"symlight.base" = "base"
"symlight.host" = "host"
"""
TYPED = "def double(x: int) -> int:\n    return 2 * x\n"
UNTYPED = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    y: str = len(x)\n    return y\n"


@pytest.fixture
def status(tmp_path, capfd):
    """A function (base, host) -> (exit status, what mypy wrote) of a project with these sources."""

    def run(base: str, host: str) -> tuple[int, str]:
        text = (ROOT / "pyproject.toml").read_text()
        (tmp_path / "pyproject.toml").write_text(FOLDERS + text[text.index("[tool.mypy]") :])
        for room, source in {"symlight": "", "base": base, "host": host}.items():
            (tmp_path / room).mkdir(exist_ok=True)
            (tmp_path / room / "__init__.py").write_text(source)
        found = check(tmp_path, tmp_path / "links", ["base", "host"])
        return found, capfd.readouterr().out

    return run


def test_what_each_level_refuses(status):
    assert status(TYPED, UNTYPED)[0] == 0
    code, said = status(UNTYPED, UNTYPED)
    assert code == 1 and "symlight/base/__init__.py:1" in said and "no-untyped-def" in said
    code, said = status(TYPED, WRONG)
    assert code == 1 and "symlight/host/__init__.py:2" in said and "assignment" in said


def test_rooms_that_are_left_out_exist_and_base_is_none_of_them():
    assert set(LEFT_OUT) < set(rooms(ROOT))
    assert "base" not in LEFT_OUT


def test_every_level_names_modules_that_exist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    for override in settings["overrides"]:
        for module in override["module"]:
            name = module.removesuffix(".*").removeprefix("symlight.").replace(".", "/")
            if module.startswith("symlight."):
                assert (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file(), module
