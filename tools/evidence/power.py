"""An estimate of power: resources times activity times energies that are stated with ranges and sources.

`make evidence` writes the table of docs/evidence/power.md from docs/evidence/synthesis.json and toggles.json.
The vendor's tool knows the routed wires; this knows none, so every energy is a range, and so is the sum.
`report_power` of the linked design replaces it (reports/power.rpt).
"""

import json
from dataclasses import dataclass
from pathlib import Path

from symlight.hw.config import CARDS, Engine


@dataclass(frozen=True)
class Range:
    """Least and most."""

    low: float
    high: float

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> "Range":
        return Range(self.low * factor, self.high * factor)

    def __str__(self) -> str:
        return f"{self.low:.1f} to {self.high:.1f}"


PICO = 1e-12
STEPS = ("u50c16", "u50c28", "u50c")  # of a first power-up
PORT_USE = 0.92  # bytes read over what the ports can carry: partial-kv at p32 (benchmarks/README.md)
BEGIN, END = "<!-- power: written by make evidence -->", "<!-- end of power -->"
# Energies in pJ; where each is from is in docs/evidence/power.md.
HBM_BIT = Range(3.9, 7.0)  # a bit read
NET_TOGGLE = Range(0.05, 0.2)  # a register's bit changes, with its wires and the LUTs that it feeds
CLOCK_REGISTER = Range(0.004, 0.012)  # a register's share of the clock tree, every cycle
DSP_CYCLE = Range(2.0, 8.0)  # a slice with new operands
MEMORY_ACCESS = Range(5.0, 20.0)  # of a RAMB36 or UltraRAM
STATIC = Range(3.0, 10.0)  # W: leakage of the die at 50 to 90 degrees, shell and HBM idle not in it


def dynamic(
    engine: Engine, whole: dict[str, float], activity: dict[str, dict[str, float]], port_use: float
) -> dict[str, Range]:
    """Watts by cause, while passes follow each other.

    Parameters
    ----------
    engine : Engine
        Ports and clock.
    whole : dict
        Resources of the kernel: "ff", "bram", "uram", "dsp".
    activity : dict
        Part -> {"bits", "rate"} of `toggles`.
    port_use : float
        Bytes read over what the ports can carry, 0 to 1: the share of cycles in which lanes work.
    """
    hertz = engine.clock_mhz * 1e6
    bits = sum(part["bits"] for part in activity.values())
    rate = sum(part["bits"] * part["rate"] for part in activity.values()) / bits
    read_bits = 8 * engine.channels * engine.beat_bytes * hertz * port_use
    memories = whole["bram"] + whole["uram"]
    return {
        "HBM": HBM_BIT * (PICO * read_bits),
        "registers, wires and logic": NET_TOGGLE * (PICO * whole["ff"] * rate * hertz),
        "clock": CLOCK_REGISTER * (PICO * whole["ff"] * hertz),
        "DSP slices": DSP_CYCLE * (PICO * whole["dsp"] * hertz * port_use),
        "memories on chip": MEMORY_ACCESS * (PICO * memories * hertz * port_use),
    }


def total(causes: dict[str, Range]) -> Range:
    """The sum over all causes."""
    return sum(causes.values(), Range(0.0, 0.0))


def ramp(
    kernel: dict, activity: dict[str, dict[str, float]], port_use: float, cards: tuple[str, ...]
) -> dict[str, dict[str, Range]]:
    """Card preset -> watts by cause; `kernel` has the resources of a channel and of the rest."""
    found = {}
    for name in cards:
        engine = CARDS[name]
        whole = {
            kind: kernel["channel"][kind] * engine.channels + kernel["rest"][kind]
            for kind in ("ff", "bram", "uram", "dsp")
        }
        found[name] = dynamic(engine, whole, activity, port_use)
    return found


def table(kernel: dict, activity: dict[str, dict[str, float]], port_use: float) -> str:
    """The estimate of the full-size kernel and of the smaller ones that come before it, in Markdown."""
    rows = ramp(kernel, activity, port_use, STEPS)
    lines = [
        "| W | " + " | ".join(f"{CARDS[name].channels} ports" for name in rows) + " |",
        "|---|" + "---|" * len(rows),
    ]
    for cause in next(iter(rows.values())):
        lines.append(f"| {cause} | " + " | ".join(str(row[cause]) for row in rows.values()) + " |")
    lines.append("| all that passes add | " + " | ".join(str(total(row)) for row in rows.values()) + " |")
    lines.append(f"| static, of the die | {STATIC} |" + " |" * (len(rows) - 1))
    return "\n".join(lines) + "\n"


def with_table(document: str, evidence: Path) -> str:
    """`document` with the table of the results in folder `evidence` between its marks; as it is without
    counted toggles."""
    counted = evidence / "toggles.json"
    if not counted.exists():
        return document
    kernel = json.loads((evidence / "synthesis.json").read_text())["kernel"]
    activity = json.loads(counted.read_text())["parts"]
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(kernel, activity, PORT_USE)}\n{END}{after}"
