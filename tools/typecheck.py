"""`make lint`: mypy over the sources under the names by which programs import them.

The folders of the repository are packages of `symlight` (pyproject.toml, package-dir). mypy finds packages by
folder names, so a folder of links gives it the installed names. The settings and their reasons are in
pyproject.toml.
"""

import os
import shutil
import sys
import tomllib
from pathlib import Path

from symlight.base import process

ROOT = Path(__file__).resolve().parents[1]
LINKS = ROOT / "build" / "types"
# Rooms that are read, and not judged.
LEFT_OUT = {
    "hw": "Amaranth has no types, and gives components their members at run time",
}


def source_folders(project: Path) -> dict[str, str]:
    """Packages of the project and their folders: "symlight.model.v1" -> "model/v1"."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    folders: dict[str, str] = settings["tool"]["setuptools"]["package-dir"]
    return folders


def rooms(project: Path) -> list[str]:
    """Names of the rooms: "base", "model", ..."""
    return [name.partition(".")[2] for name in source_folders(project) if name.count(".") == 1]


def link_packages(project: Path, links: Path) -> None:
    """Make `links`/symlight with one link per room of the project."""
    shutil.rmtree(links, ignore_errors=True)
    package = links / "symlight"
    package.mkdir(parents=True)
    folders = source_folders(project)
    for file in (project / folders["symlight"]).glob("*.py"):
        (package / file.name).symlink_to(file)
    for room in rooms(project):  # its own folders come with it
        (package / room).symlink_to(project / folders[f"symlight.{room}"])


def check(project: Path, links: Path, checked: list[str]) -> int:
    """mypy's exit status over the rooms `checked`, at the levels of the project's pyproject.toml."""
    link_packages(project, links)
    packages = [word for room in checked for word in ("-p", f"symlight.{room}")]
    settings, cache = str(project / "pyproject.toml"), str(project / "build" / "mypy")
    command = [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", cache, *packages]
    environment = os.environ | {"MYPYPATH": os.pathsep.join([str(links), str(project / "typings")])}
    return process.run(command, links, environment=environment, on_line=_show).status


def _show(line: str) -> None:
    print(line, end="", flush=True)


def main() -> int:
    return check(ROOT, LINKS, [room for room in rooms(ROOT) if room not in LEFT_OUT])


if __name__ == "__main__":
    sys.exit(main())
