"""Builds the shared library of a simulated kernel: Verilator, then the C++ compiler; kept in a cache by
content.

The key is a hash of everything that goes in: Verilog, harness, options, tool versions. A library appears
under its key in one rename, so an interrupted build leaves nothing that a later one could take for finished.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from symlight.base.cache import cached, room
from symlight.base.errors import UserError
from symlight.base.plain_paths import plain_folder
from symlight.base.tools import Progress, Tools
from symlight.hw.compiler.verilog import CHECKS
from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME
from symlight.hw.kernel.channels import CHANNEL_MODULE

from .parts import CHANNEL_PREFIX, KERNEL_PREFIX, binding, channel_ports, defines, empty_channel
from .power_up import checks_switchable, without_register_initials

HERE = Path(__file__).parent / "harness"
HARNESS = ("harness.cpp", "harness.h", "design.h", "thread_team.h", "axi_slave.h", "axi_rules.h", "hbm.h")
LIBRARY = "libsymlight.so"
MODELS = "models"  # room of the cache
VERILATOR_FLAGS = (
    "-Mdir",
    "objects",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "unique",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
)
# Slow files hold what runs once (initial values); they are half of the text, and optimising them would take
# longer than all the rest.
OPTIMISE = {"OPT_SLOW": "-O0", "OPT_GLOBAL": "-O1"}
# What Verilator's writer of FST files includes, and Debian's packages with it.
FST_HEADERS = {"lz4.h": "liblz4-dev", "zlib.h": "zlib1g-dev"}
PART = "channel"  # where the kernel finds the channel's objects
CXX_FLAGS = (
    # several kernels in one process share no symbol
    "-std=c++20",
    "-pthread",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-DVL_USER_FINISH",
    "-DVL_USER_STOP",
    "-DVL_USER_FATAL",  # a failed assertion is an error, not an exit
)


def build_model(
    sources: Sequence[Path] | Path,
    engine: Engine,
    cache: Path | None = None,
    *,
    trace: str | None = None,
    assertions: bool = True,
    whole: bool = False,
    optimise: str = "-O3",
    jobs: int | None = None,
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
        Folder of finished libraries; default: `models` in the user's cache.
    trace : str or None
        Format of the waveform files that the library can write: "vcd" or "fst". Costs speed.
    assertions : bool
        With the design's assertions. Costs speed.
    whole : bool
        Verilate the kernel in one piece. Otherwise the channel is verilated once, for all its instances: an
        eighth of the C++ for a kernel of 32 channels, with the same cycles (parts.py).
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
    rtl = {
        f"rtl{i}.v": checks_switchable(without_register_initials(Path(source).read_bytes()))
        for i, source in enumerate(sources)
    }
    channel = {} if whole else _channel_file(rtl)
    ports = channel_ports(channel["channel.v"].decode()) if channel else []
    common = (
        *VERILATOR_FLAGS,
        *(("--assert", f"-D{CHECKS}") if assertions else ("--no-assert",)),
        *((f"--trace-{trace}",) if trace else ()),
    )
    tools = require_tools(trace)
    compiler = _Compiler(tools, {"OPT_FAST": optimise, **OPTIMISE}, jobs or os.cpu_count() or 1, progress)
    cache = cache or room(None, MODELS)

    texts = {name: text for name, text in rtl.items() if text not in channel.values()}
    if channel:
        texts["channel.v"] = empty_channel(ports).encode()
    texts |= {name: (HERE / name).read_bytes() for name in HARNESS}
    texts["ports.h"] = binding(engine, ports, checked=assertions).encode()
    part = _Recipe(
        CHANNEL_PREFIX,
        channel,
        (
            "--cc",
            "--top-module",
            CHANNEL_MODULE,
            "--prefix",
            CHANNEL_PREFIX,
            *common,
            "-CFLAGS",
            " ".join(CXX_FLAGS),
            *channel,
        ),
        f"lib{CHANNEL_PREFIX}.a",
    )
    # Compiled in folder objects; harness and ports.h are one level up.
    include, archive = (f"-I../{PART}", f"../{PART}/lib{CHANNEL_PREFIX}.a") if channel else ("", "")
    kernel = _Recipe(
        KERNEL_PREFIX,
        texts,
        (
            "--cc",
            "--exe",
            "--top-module",
            KERNEL_NAME,
            "--prefix",
            KERNEL_PREFIX,
            "-o",
            LIBRARY,
            *common,
            "-CFLAGS",
            f"{' '.join(CXX_FLAGS)} -I.. {include}",
            "-LDFLAGS",
            f"-shared -Wl,-Bsymbolic -pthread {archive}",
            *(name for name in texts if name.endswith((".v", ".cpp"))),
        ),
        LIBRARY,
    )

    def make(folder: Path) -> Path:
        if channel:  # in an entry of its own: kernels that differ in the number of channels share it
            objects = _cached(
                cache, compiler.key(part), "objects", lambda empty: _product(compiler.build(part, empty))
            )
            (folder / PART).symlink_to(objects)
        return compiler.build(kernel, folder) / LIBRARY

    return _cached(cache, compiler.key(kernel, part), LIBRARY, make)


def _channel_file(rtl: dict[str, bytes]) -> dict[str, bytes]:
    """The file with the channel, as channel.v; empty if no file has it to itself."""
    return {
        "channel.v": text
        for text in rtl.values()
        if defines(text, CHANNEL_MODULE) and not defines(text, KERNEL_NAME)
    }


@dataclass(frozen=True)
class _Recipe:
    """A verilated model: class prefix, files, options of Verilator, and the file that make ends with."""

    prefix: str
    texts: dict[str, bytes]
    options: tuple[str, ...]
    result: str


@dataclass(frozen=True)
class _Compiler:
    """Verilator and the C++ compiler with their settings."""

    tools: Tools
    optimisations: dict[str, str]
    jobs: int
    progress: Progress | None

    def key(self, *recipes: _Recipe) -> str:
        """Of the cache: everything that the result depends on."""
        settings = [str(self.optimisations), self.tools.versions()]
        texts: dict[str, bytes] = {}
        for recipe in recipes:
            settings += recipe.options
            texts |= {f"{recipe.prefix}/{name}": text for name, text in recipe.texts.items()}
        return _key(settings, texts)

    def build(self, recipe: _Recipe, folder: Path) -> Path:
        """The folder of objects, made in the empty `folder`."""
        for name, content in recipe.texts.items():
            (folder / name).write_bytes(content)
        self.tools.link(folder)
        self.tools.verilate(folder, recipe.options, self.progress)
        objects = folder / "objects"
        self.tools.compile(objects, recipe.prefix, self.optimisations, self.jobs, self.progress)
        if not (objects / recipe.result).is_file():
            raise UserError(f"building the simulator: make ended well, but did not write {recipe.result}")
        return objects


def require_tools(trace: str | None = None) -> Tools:
    """Everything that `build_model` runs; a `UserError` unless it is installed."""
    tools = Tools()
    if trace == "fst":
        tools.require_headers("waveforms in FST", FST_HEADERS)
    return tools


def build_traffic(cache: Path | None = None) -> Path:
    """The shared library of the memory model with its traffic generator (traffic.cpp), which needs no
    kernel."""
    tools = Tools()
    names = ("traffic.cpp", "axi_slave.h", "axi_rules.h", "hbm.h")
    flags = ["-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    key = _key([*flags, tools.versions()], {name: (HERE / name).read_bytes() for name in names})

    def make(folder: Path) -> Path:
        tools.run([tools.cxx, *flags, str(HERE / names[0]), "-o", "libtraffic.so"], folder)
        return folder / "libtraffic.so"

    return _cached(cache or room(None, MODELS), key, "libtraffic.so", make)


def _product(objects: Path) -> Path:
    """What a kernel needs of the channel's objects: archive and headers, a tenth of the whole."""
    for file in objects.iterdir():
        if file.suffix not in (".a", ".h"):
            file.unlink()
    return objects


def _key(settings: Iterable[str], texts: dict[str, bytes]) -> str:
    digest = hashlib.sha256("\0".join(settings).encode())
    for name, content in texts.items():
        digest.update(f"\0{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:24]


def _cached(cache: Path, key: str, name: str, make: Callable[[Path], Path]) -> Path:
    """File or folder `name` of entry `key`: the only thing that is kept of what `make(folder)`, in an empty
    folder with a plain path, leaves there."""

    def keep_result(entry: Path) -> None:
        with plain_folder(entry) as folder:
            shutil.move(make(folder), entry / name)

    return cached(cache, key, keep_result) / name
