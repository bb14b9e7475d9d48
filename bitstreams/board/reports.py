"""Figures out of the report that nextpnr writes (`--report`)."""

import json
from pathlib import Path

from symlight.base.errors import UserError

# Kinds of cells that are counted, and the names they get here.
CELLS = {
    "TRELLIS_COMB": "lut4",
    "TRELLIS_FF": "ff",
    "DP16KD": "ebr",
    "MULT18X18D": "mult18",
    "TRELLIS_RAMW": "ramw",
}


def read_report(file: Path) -> dict:
    """Fmax of each clock in MHz, and cells used and available."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
        clocks = {
            _clock(name): {"mhz": round(entry["achieved"], 2), "wanted_mhz": round(entry["constraint"], 2)}
            for name, entry in sorted(report["fmax"].items())
        }
        cells = {
            name: {
                "used": report["utilization"][cell]["used"],
                "of": report["utilization"][cell]["available"],
            }
            for cell, name in CELLS.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{file} is no report of nextpnr-ecp5 ({error!r}); build the bitstream again"
        ) from error
    return {"clocks": clocks, "cells": cells}


def _clock(name: str) -> str:
    """The clock of a net: of the names that the netlist has for one net, nextpnr takes any, such as
    `$glbnet$board.controller.sdram_clk` and `$glbnet$board.beats.clk`."""
    return "sdram" if name.endswith("sdram_clk") else "kernel"


def timing_met(report: dict) -> bool:
    """Whether every clock reaches what it must."""
    return all(clock["mhz"] >= clock["wanted_mhz"] for clock in report["clocks"].values())


def fullest(report: dict) -> tuple[str, float]:
    """The kind of cell that is used most, and its share."""
    return max(
        ((name, cell["used"] / cell["of"]) for name, cell in report["cells"].items()),
        key=lambda pair: pair[1],
    )
