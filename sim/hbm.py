"""Parameters of the memory model, read from hbm.h: simulation and estimate have them from one place."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HEADER = Path(__file__).parent / "harness" / "hbm.h"
LEAST_BYTES = 1024  # in flight: the longest burst, 16 beats of 64 bytes


@cache
def header_constants() -> Mapping[str, int]:
    """Parameters of hbm.h with their defaults, and its constants in capitals."""
    text = HEADER.read_text()
    table = re.search(r"#define HBM_PARAMETERS\(X\)(.*?)\n\n", text, re.S)
    assert table is not None, "hbm.h lists its parameters"
    found = {name: int(value) for name, value in re.findall(r"X\((\w+), (\d+)\)", table[1])}
    return found | {name: int(value) for name, value in re.findall(r"constexpr int ([A-Z_]+) = (\d+);", text)}
