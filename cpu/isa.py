"""Instruction sets that the kernels are compiled for, and which of them this machine can run."""

import platform
from dataclasses import dataclass
from pathlib import Path

from symlight.base.errors import UserError


@dataclass(frozen=True)
class Isa:
    """One way to compile the kernels.

    Members
    -------
    name : str
    machine : str | None
        As `platform.machine()` says; None: any.
    features : frozenset of str
        Words of /proc/cpuinfo that must be there.
    flags : tuple of str
        Of the compiler.
    """

    name: str
    machine: str | None
    features: frozenset[str]
    flags: tuple[str, ...]


def _isa(name: str, machine: str | None, features: str, *flags: str) -> Isa:
    return Isa(name, machine, frozenset(features.split()), flags)


_AVX2 = "avx2 bmi1 bmi2 fma movbe f16c"
ISAS = (  # the best first
    _isa(
        "avx512vnni",
        "x86_64",
        f"{_AVX2} avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni",
        "-march=x86-64-v4",
        "-mavx512vnni",
        "-mprefer-vector-width=512",
    ),
    _isa("avxvnni", "x86_64", f"{_AVX2} avx_vnni", "-march=x86-64-v3", "-mavxvnni"),
    _isa("avx2", "x86_64", _AVX2, "-march=x86-64-v3"),
    _isa("neon-dot", "aarch64", "asimd asimddp", "-march=armv8.2-a+dotprod"),
    _isa("neon", "aarch64", "asimd", "-march=armv8-a"),
    _isa("plain", None, "", "-DSYMLIGHT_PLAIN"),
)


def runnable() -> list[Isa]:
    """The instruction sets of this machine, the best first; `plain` is always among them."""
    features = _features()
    machine = platform.machine()
    return [isa for isa in ISAS if isa.machine in (None, machine) and isa.features <= features]


def find(name: str | None) -> Isa:
    """The instruction set called `name`, or the best one; a `UserError` when this machine cannot run it."""
    known = runnable()
    if name is None:
        return known[0]
    for isa in known:
        if isa.name == name:
            return isa
    raise UserError(
        f"this machine cannot run the instruction set {name!r}; "
        f"it can run {', '.join(isa.name for isa in known)}"
    )


def _features() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
