"""Shared libraries of verilated board parts with the SDRAM's model; kept in the cache by content."""

import hashlib
import os
import shutil
from pathlib import Path

from symlight.base.cache import cached, room
from symlight.base.errors import UserError
from symlight.base.plain_paths import plain_folder
from symlight.base.tools import Progress, Tools
from symlight.hw.compiler.verilog import CHECKS

from ..build import CXX_FLAGS, MODELS, OPTIMISE, VERILATOR_FLAGS

HERE = Path(__file__).parent


def build_library(
    top: str,
    verilog: str,
    harness: tuple[str, ...],
    *,
    cache: Path | None = None,
    assertions: bool = True,
    optimise: str = "-O3",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """The shared library of module `top`, verilated with class prefix V`top` and the C++ files `harness`.

    Parameters
    ----------
    top : str
        Module; also the class.
    verilog : str
        Its text, with everything that it instantiates.
    harness : tuple of str
        File names beside this one: C++ files and headers.
    jobs : int
        Compilers at a time; default the number of processors.
    """
    tools = Tools()
    flags = (
        *("--cc", "--exe", "--top-module", top, "--prefix", f"V{top}", "-o", f"lib{top}.so"),
        *VERILATOR_FLAGS,
        "-Werror-ALWNEVER",  # a constant in a part of a signal: it would never be assigned
        *(("--assert", f"-D{CHECKS}") if assertions else ("--no-assert",)),
        *("-CFLAGS", f"{' '.join(CXX_FLAGS)} -I..", "-LDFLAGS", "-shared -Wl,-Bsymbolic -pthread"),
        f"{top}.v",
        *(name for name in harness if name.endswith(".cpp")),
    )
    texts = {f"{top}.v": verilog.encode()} | {name: (HERE / name).read_bytes() for name in harness}
    digest = hashlib.sha256("\0".join([*flags, optimise, tools.versions()]).encode())
    for name, text in texts.items():
        digest.update(f"\0{name}\0{len(text)}\0".encode() + text)
    library = f"lib{top}.so"

    def make(entry: Path) -> None:
        with plain_folder(entry) as folder:
            for name, text in texts.items():
                (folder / name).write_bytes(text)
            tools.link(folder)
            tools.verilate(folder, flags, progress)
            objects = folder / "objects"
            tools.compile(
                objects, f"V{top}", {"OPT_FAST": optimise, **OPTIMISE}, jobs or os.cpu_count() or 1, progress
            )
            if not (objects / library).is_file():
                raise UserError(f"building the simulator: make ended well, but did not write {library}")
            shutil.move(objects / library, entry / library)

    return cached(cache or room(None, MODELS), digest.hexdigest()[:24], make) / library


def build_chip(cache: Path | None = None) -> Path:
    """The shared library of the SDRAM's model by itself (chip.cpp), which needs no design."""
    tools = Tools()
    names = ("chip.cpp", "sdram.h")
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    digest = hashlib.sha256("\0".join([*flags, tools.versions()]).encode())
    for name in names:
        digest.update((HERE / name).read_bytes())

    def make(entry: Path) -> None:
        with plain_folder(entry) as folder:
            tools.run([tools.cxx, *flags, str(HERE / names[0]), "-o", "libchip.so"], folder)
            shutil.move(folder / "libchip.so", entry / "libchip.so")

    return cached(cache or room(None, MODELS), digest.hexdigest()[:24], make) / "libchip.so"
