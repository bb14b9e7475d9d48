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


def dynamic(engine: Engine, kernel: dict, counted: dict, port_use: float) -> dict[str, Range]:
    """Watts by cause, while passes follow each other.

    Parameters
    ----------
    engine : Engine
        Ports and clock.
    kernel : dict
        Resources ("ff", "bram", "uram", "dsp") of a "channel" and of the "rest".
    counted : dict
        `toggles.json`: "parts" with the rate of each, "port_use" of the run that was counted. A channel's
        toggles are taken to go with the beats that it reads.
    port_use : float
        Bytes read over what the ports can carry, 0 to 1: the share of cycles in which lanes work.
    """
    hertz = engine.clock_mhz * 1e6
    whole = {
        kind: kernel["channel"][kind] * engine.channels + kernel["rest"][kind]
        for kind in ("ff", "bram", "uram", "dsp")
    }
    parts = counted["parts"]
    others = [part for name, part in parts.items() if name != "channel"]
    rate = sum(part["bits"] * part["rate"] for part in others) / sum(part["bits"] for part in others)
    busy = parts["channel"]["rate"] * port_use / counted["port_use"]
    toggling = kernel["channel"]["ff"] * engine.channels * busy + kernel["rest"]["ff"] * rate
    read_bits = 8 * engine.channels * engine.beat_bytes * hertz * port_use
    memories = whole["bram"] + whole["uram"]
    return {
        "HBM": HBM_BIT * (PICO * read_bits),
        "registers, wires and logic": NET_TOGGLE * (PICO * toggling * hertz),
        "clock": CLOCK_REGISTER * (PICO * whole["ff"] * hertz),
        "DSP slices": DSP_CYCLE * (PICO * whole["dsp"] * hertz * port_use),
        "memories on chip": MEMORY_ACCESS * (PICO * memories * hertz * port_use),
    }


def total(causes: dict[str, Range]) -> Range:
    """The sum over all causes."""
    return sum(causes.values(), Range(0.0, 0.0))


def table(kernel: dict, counted: dict, port_use: float) -> str:
    """The estimate of the full-size kernel and of the smaller ones that come before it, in Markdown."""
    rows = [dynamic(CARDS[name], kernel, counted, port_use) for name in STEPS]
    lines = [
        "| W | " + " | ".join(f"{CARDS[name].channels} ports" for name in STEPS) + " |",
        "|---|" + "---|" * len(rows),
    ]
    lines += [f"| {cause} | " + " | ".join(str(row[cause]) for row in rows) + " |" for cause in rows[0]]
    lines.append("| all that passes add | " + " | ".join(str(total(row)) for row in rows) + " |")
    lines.append(f"| static, of the die | {STATIC} |" + " |" * (len(rows) - 1))
    return "\n".join(lines) + "\n"


def with_table(document: str, evidence: Path) -> str:
    """`document` with the table of the results in folder `evidence` between its marks; as it is without
    counted toggles."""
    toggles = evidence / "toggles.json"
    if not toggles.exists():
        return document
    kernel = json.loads((evidence / "synthesis.json").read_text())["kernel"]
    counted = json.loads(toggles.read_text())
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(kernel, counted, PORT_USE)}\n{END}{after}"
