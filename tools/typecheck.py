"""`make lint`: mypy over the sources under the names by which programs import them.

The folders of the repository are packages of `symlight` (pyproject.toml, package-dir). mypy finds packages by
folder names, so a folder of links gives it the installed names. The settings and their reasons are in
pyproject.toml.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINKS = ROOT / "build" / "types"
CHECKED = ("symlight.base",)  # a room joins when it passes


def link_packages(project: Path, links: Path) -> None:
    """Make `links`/symlight with one link per source folder of the project."""
    folders = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    shutil.rmtree(links, ignore_errors=True)
    package = links / "symlight"
    package.mkdir(parents=True)
    for file in (project / folders["symlight"]).glob("*.py"):
        (package / file.name).symlink_to(file)
    for name, folder in folders.items():
        if name.count(".") == 1:  # a room; its own folders come with it
            (package / name.partition(".")[2]).symlink_to(project / folder)


def main() -> int:
    link_packages(ROOT, LINKS)
    checked = [word for package in CHECKED for word in ("-p", package)]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *checked]
    environment = os.environ | {"MYPYPATH": str(LINKS)}
    return subprocess.run(command, cwd=LINKS, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
