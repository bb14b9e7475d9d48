"""The rooms: imports run one way and in no circle, files and folders stay small, tests mirror the sources."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

from tests.benches.places import ROOT

pytestmark = pytest.mark.timeout(60)

FILE_LINES = 350
FOLDER_FILES = 20
RESULTS = "benchmarks/kernel"  # a file per row of the standard table, however long that is
SOURCES = (".py", ".cpp", ".h", ".tcl")
# What a room may import, besides itself and the package's `symlight/__init__.py`, which has the version.
ARROWS = {
    "symlight": set(),
    "base": set(),
    "model": {"base"},
    "hw": {"base", "model"},
    "sim": {"base", "model", "hw"},
    "cpu": {"base", "model"},
    "bitstreams": {"base", "model", "hw", "sim"},
    "host": {"base", "model", "hw", "sim", "cpu", "bitstreams"},
    "tools": {"base", "model", "hw", "sim", "cpu", "bitstreams", "host"},
}


@cache
def tracked() -> list[str]:
    """The files of the repository, and those that are new and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return sorted(name for name in set(listed.stdout.splitlines()) if (ROOT / name).is_file())


def module_of(path: str) -> str:
    """Dotted name without the leading `symlight`: "hw.channel.gather"; a package by its folder."""
    return ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a module but those under `if TYPE_CHECKING:`, which no program runs."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from statements(child)


def imports_of(text: str, module: str, is_package: bool, known: set[str]) -> set[str]:
    """Modules of the project among `known` that `module` imports, at its top or in a function."""
    found = set()
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name.removeprefix("symlight.") for alias in node.names if "symlight" in alias.name]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                parts = module.split(".")
                base = parts[: len(parts) - node.level + is_package]
            elif (node.module or "").split(".")[0] == "symlight":
                base = []
            else:
                continue
            base += [part for part in (node.module or "").split(".") if part and part != "symlight"]
            names = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        for name in names:
            target = name if name in known else name.rpartition(".")[0]
            if target in known and target != module:
                found.add(target)
    return found


def graph_of(files: dict[str, str]) -> dict[str, set[str]]:
    """Module -> the modules it imports; `files` maps paths to texts."""
    known = {module_of(path) for path in files}
    return {
        module_of(path): imports_of(text, module_of(path), path.endswith("__init__.py"), known)
        for path, text in files.items()
    }


def wrong_arrows(graph: dict[str, set[str]]) -> list[str]:
    return [
        f"{module} imports {other}"
        for module, others in sorted(graph.items())
        for other in sorted(others)
        if other.split(".")[0] not in ARROWS[own := module.split(".")[0]] | {own, "symlight"}
    ]


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of a circle, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def graph():
    paths = [name for name in tracked() if name.endswith(".py") and name.split("/")[0] in ARROWS]
    return graph_of({name: (ROOT / name).read_text() for name in paths})


def test_imports_run_one_way(graph):
    assert len(graph) > 100
    assert wrong_arrows(graph) == []


def test_imports_have_no_circle(graph):
    assert circle(graph) == []


def test_every_room_is_named():
    rooms = {name.split("/")[0] for name in tracked() if name.endswith("/__init__.py")} - {"tests"}
    assert rooms == set(ARROWS)


def test_a_circle_and_a_wrong_arrow_are_seen():
    files = {
        "model/__init__.py": "",
        "model/a.py": "from .b import x",
        "model/b.py": "def f():\n    from symlight.model import a",
        "hw/c.py": "import symlight.host.d",
        "host/d.py": "from ..hw import c",
    }
    found = graph_of(files)
    assert found["model.a"] == {"model.b"} and found["model.b"] == {"model.a"}
    assert set(circle(found)) >= {"model.a", "model.b"}
    assert wrong_arrows(found) == ["hw.c imports host.d"]


def test_files_are_short():
    lengths = {
        name: len((ROOT / name).read_text().splitlines()) for name in tracked() if name.endswith(SOURCES)
    }
    long = {name for name, length in lengths.items() if length > FILE_LINES}
    assert long == set(), f"split what is above {FILE_LINES} lines"


def test_folders_are_small():
    counts: dict[str, int] = {}
    for name in tracked():
        folder = str(PurePosixPath(name).parent)
        if folder != RESULTS:
            counts[folder] = counts.get(folder, 0) + 1
    assert {folder: count for folder, count in counts.items() if count > FOLDER_FILES} == {}


def test_tests_mirror_the_rooms():
    """A test folder has a source folder of its name; only systems under test have folders of their own."""
    # the card's contract, the whole accelerator, the whole board
    whole = {"tests", "tests/contract", "tests/kernel", "tests/board"}
    for name in tracked():
        folder = Path(name).parent
        if Path(name).name.startswith("test_") and name.endswith(".py") and str(folder) not in whole:
            assert (ROOT / folder.relative_to("tests")).is_dir(), f"{name}: no room {folder}"


def test_modules_that_tests_import_are_benches():
    """A test folder holds tests and conftest.py; everything else that tests import is in tests/benches."""
    for name in tracked():
        path = PurePosixPath(name)
        if path.parts[0] == "tests" and path.suffix == ".py" and path.parts[1] != "benches":
            usual = path.name.startswith("test_") or path.name in ("conftest.py", "__init__.py")
            assert usual, f"{name}: belongs to tests/benches"


def test_nothing_changes_the_module_path():
    marks = [name for name in tracked() if name.startswith("tests/") and name.endswith(".py")]
    found = [name for name in marks if "sys.path" + ".insert" in (ROOT / name).read_text()]
    assert found == []
