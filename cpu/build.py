"""Compiles the kernels at first use, one library for each instruction set, kept in a cache by content."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from symlight.base import process
from symlight.base.cache import cached, room
from symlight.base.errors import UserError
from symlight.base.tools import require_success

from . import abi
from .isa import Isa

Progress = Callable[[str, int, int], None]  # stage, done, total (0: unknown)
KERNELS = Path(__file__).parent / "kernels"
LIBRARY = "libsymlight-cpu.so"
FLAGS = (
    "-std=c++20",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-pthread",
    "-fvisibility=hidden",
    "-Wno-psabi",
)
FINITE = (
    "-ffinite-math-only",
    "-fno-signed-zeros",
)  # of kernels without infinities: clamps are one instruction
COMPILER = "g++"
ROOM = "cpu"  # of the cache


class NoCompiler(UserError):
    """There is no C++ compiler."""


def build_library(
    isa: Isa,
    cache: Path | None = None,
    *,
    source: Path = KERNELS / "engine.cpp",
    headers: dict[str, str] | None = None,
    compiler: str = COMPILER,
    flags: Sequence[str] = (),
    progress: Progress | None = None,
) -> Path:
    """The shared library of `source` for `isa`; compiled unless the cache has it (some seconds).

    Parameters
    ----------
    source : Path
        A C++ file; it finds the headers of cpu/kernels, those beside it, and `headers`.
    headers : dict of str
        Text of further headers by name; default: abi.h of cpu.abi.
    compiler, flags
        Of another target, to compile for it.
    progress : callable(stage, done, total)
        Told of stage "compile" when there is something to compile.

    Raises
    ------
    UserError
        There is no compiler (`NoCompiler`), or it failed: the message ends with what it said.
    """
    path = shutil.which(compiler)
    if path is None:
        raise NoCompiler(
            f"{compiler} not found: the CPU engine is compiled at first use; install it "
            "(Debian: apt-get install g++), or use --device reference, which needs no compiler and is slow"
        )
    headers = {"abi.h": abi.V2.header()} if headers is None else headers
    folders = list(dict.fromkeys((KERNELS, source.parent)))
    texts = {
        file.name: file.read_text(encoding="utf-8")
        for folder in folders
        for file in sorted(folder.glob("*.h"))
    }
    texts |= headers | {source.name: source.read_text(encoding="utf-8")}
    options = (*FLAGS, *isa.flags, *flags)
    identity = repr(
        (sorted(texts.items()), options, _run([path, "--version"], KERNELS), process.searched_paths())
    )
    key = f"{isa.name}-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"

    def make(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        if progress:
            progress("compile", 0, 0)
        _run([path, *options, "-I.", source.name, "-o", LIBRARY], folder)
        if progress:
            progress("compile", 1, 1)

    return cached(room(None, ROOM) if cache is None else cache, key, make) / LIBRARY


def _run(command: list[str], folder: Path) -> str:
    finished = process.run(command, folder)
    require_success("compiling the CPU engine", command[0], finished)
    return finished.output
