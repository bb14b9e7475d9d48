"""Toggles of a design's signals, counted from a VCD waveform: the activity behind the estimate of power.

    python -m symlight.tools.evidence.toggles FILE.vcd [--port-use SHARE] [--about TEXT] [--out FILE.json]

A signal that several scopes name counts once, in the first. Changes from and to unknown values do not count.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

KINDS = ("reg", "logic")  # of what is counted; a wire repeats a register or is a function of some
PARTS = {  # part of the design -> scopes, the first that matches
    "channel": re.compile(r"\bchannel\d+\b|\bsymlight_channel\b"),
    "vector unit": re.compile(r"\bvector\b"),
    "rest": re.compile(r""),
}


@dataclass
class Activity:
    """Of one part: bits of its signals, and how often they changed."""

    bits: int = 0
    toggles: int = 0

    def rate(self, cycles: int) -> float:
        """Toggles of a bit in a cycle."""
        return self.toggles / (self.bits * cycles) if self.bits and cycles else 0.0


@dataclass
class Toggles:
    """Activity by part, over `cycles` clock cycles."""

    cycles: int = 0
    parts: dict[str, Activity] = field(default_factory=dict)

    def to_json(self) -> dict:
        return {
            "cycles": self.cycles,
            "parts": {
                name: {
                    "bits": one.bits,
                    "toggles": one.toggles,
                    "rate": round(one.rate(self.cycles), 5),
                }
                for name, one in self.parts.items()
            },
        }


def _part(scope: str) -> str:
    return next(name for name, pattern in PARTS.items() if pattern.search(scope))


def count(lines: Iterable[str], clock: str = "clk") -> Toggles:
    """Toggles in the lines of a VCD file; `clock` is the name of the signal whose rising edges are cycles."""
    found = Toggles(parts={name: Activity() for name in PARTS})
    owner: dict[str, tuple[Activity, int]] = {}  # code -> (part, width)
    clocks: set[str] = set()
    scopes: list[str] = []
    value: dict[str, int | None] = {}
    stream = iter(lines)
    for line in stream:
        words = line.split()
        if not words:
            continue
        if words[0] == "$scope":
            scopes.append(words[2])
        elif words[0] == "$upscope":
            scopes.pop()
        elif words[0] == "$var":
            kind, width, code, name = words[1], int(words[2]), words[3], words[4]
            if name == clock:
                clocks.add(code)
            elif kind in KINDS and code not in owner:
                part = found.parts[_part(".".join(scopes))]
                part.bits += width
                owner[code] = (part, width)
        elif words[0] == "$enddefinitions":
            break
    if not clocks:
        raise ValueError(f"no signal of the waveform is called {clock!r}")
    counted = next(iter(sorted(clocks)))
    for line in stream:
        if not line or line[0] in "#$":
            continue
        if line[0] in "bB":
            text, _, code = line[1:].strip().partition(" ")
        elif line[0] in "01xXzZ":
            text, code = line[0], line[1:].strip()
        else:
            continue
        if code == counted:
            found.cycles += text == "1"
            continue
        if code not in owner:
            continue
        new = int(text, 2) if set(text) <= {"0", "1"} else None
        old = value.get(code)
        if new is not None and old is not None:
            owner[code][0].toggles += (new ^ old).bit_count()
        value[code] = new
    return found


@click.command()
@click.argument("waveform", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--clock", default="clk", show_default=True, help="Signal whose rising edges are cycles.")
@click.option(
    "--port-use",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Bytes read over what the ports can carry in these cycles, from the kernel's counters.",
)
@click.option("--about", default="", help="What was simulated.")
@click.option("--out", type=click.Path(path_type=Path), help="JSON file to write.")
def main(waveform: Path, clock: str, port_use: float, about: str, out: Path | None) -> None:
    """Count the toggles of a VCD waveform."""
    with waveform.open(encoding="ascii", errors="replace") as lines:
        counted = count(lines, clock).to_json()
    text = json.dumps({"about": about, "port_use": port_use, **counted}, indent=1) + "\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text)


if __name__ == "__main__":
    main()
