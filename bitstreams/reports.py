"""Figures out of Vivado's text reports (report_timing_summary, report_utilization)."""

import re

from symlight.base.errors import UserError

# Rows of report_utilization and the names they get here.
RESOURCES = {
    "CLB LUTs": "lut",
    "CLB Registers": "ff",
    "Block RAM Tile": "bram36",
    "URAM": "uram",
    "DSPs": "dsp",
}
_SUMMARY = re.compile(r"^\s*WNS\(ns\)\s+TNS\(ns\)[^\n]*\n[\s-]*\n\s*(?P<row>[^\n]+)", re.M)
_ROW = re.compile(r"^\|\s*(?P<name>[^|]+?)\*?\s*\|(?P<cells>[^\n]+)\|\s*$", re.M)


def timing(text: str, name: str = "the timing report") -> dict[str, float]:
    """Worst slacks of the whole design in ns: {"setup": WNS, "hold": WHS}."""
    found = _SUMMARY.search(text)
    numbers = found["row"].split() if found else []
    try:
        return {"setup": float(numbers[0]), "hold": float(numbers[4])}
    except (IndexError, ValueError):
        raise UserError(
            f"{name} has no design timing summary; give Vivado's report_timing_summary of the routed design"
        ) from None


def utilisation(text: str, name: str = "the utilisation report") -> dict[str, float]:
    """Resources used by the whole design: LUT, FF, block RAMs of 36 kbit, UltraRAM, DSP."""
    used = {}
    for row in _ROW.finditer(text):
        key = RESOURCES.get(row["name"])
        if key is None or key in used:
            continue
        try:
            used[key] = float(row["cells"].split("|")[0])
        except ValueError:
            continue
    if missing := [row for row, key in RESOURCES.items() if key not in used]:
        raise UserError(
            f"{name} has no row {missing[0]!r}; give Vivado's report_utilization of the routed design"
        )
    return used
