"""Place and route of a synthesised board by nextpnr-ecp5, and its phases as progress."""

import re
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.tools import Progress

from .reports import read_report, timing_met
from .tools import NEXTPNR, run_tool

PART = ("--85k", "--package", "CABGA381", "--speed", "6")  # of the ULX3S
# On a busy machine, router1 had 260,475 of 286,710 arcs left after nine minutes. No route is complete yet.
EFFORT = ("--router", "router2")

# What nextpnr says when a phase begins.
_PHASES = {
    "pack": re.compile(r"Info: Packing "),
    "place": re.compile(r"Info: Creating initial analytic placement"),
    "refine the placement": re.compile(r"Info: Running simulated annealing placer"),
    "route": re.compile(r"Info: (?:Routing|Running router2)\.\."),
}


class Phases:
    """Phases of nextpnr out of its lines, as progress."""

    def __init__(self, progress: Progress | None):
        self._say = progress or (lambda stage, done, total: None)
        self._phase = "read the netlist"
        self._say(self._phase, 0, 0)

    def __call__(self, line: str) -> None:
        for phase, beginning in _PHASES.items():
            if phase != self._phase and beginning.match(line):
                self.end()
                self._phase = phase
                self._say(phase, 0, 0)

    def end(self) -> None:
        """The last phase is over."""
        self._say(self._phase, 1, 1)


def place_and_route(name: str, folder: Path, seed: int, progress: Progress | None = None) -> dict:
    """Place and route NAME.json with NAME.lpf in `folder` into NAME.config; clocks and cells of the result
    (`reports.read_report`).

    The tool's words go into NAME.tim. A clock that is not reached is no error here.
    """
    phases = Phases(progress)
    run_tool(NEXTPNR, arguments(name, seed), folder, phases)
    phases.end()
    return read_report(folder / f"{name}.report.json")


def arguments(name: str, seed: int) -> list[str]:
    """Of nextpnr: a failed clock is for `require_timing` to report."""
    return [
        *("--log", f"{name}.tim", "--report", f"{name}.report.json"),
        *("--seed", str(seed), "--timing-allow-fail", *EFFORT, *PART),
        *("--json", f"{name}.json", "--lpf", f"{name}.lpf", "--textcfg", f"{name}.config"),
    ]


def require_timing(report: dict, seed: int) -> None:
    """A `UserError` unless every clock reaches what it must."""
    if not timing_met(report):
        clocks = ", ".join(
            f"{name} {c['mhz']} of {c['wanted_mhz']} MHz" for name, c in report["clocks"].items()
        )
        raise UserError(
            f"place and route with seed {seed} does not meet the clocks: {clocks}; try another --seed"
        )
