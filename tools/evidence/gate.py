"""The netlist gate: what a mapped unit must not have, whatever its depth and its size.

Fan-out beyond `loads.LIMIT`, resets that reach too much, registers that became shift registers though they
are meant to be where a wire crosses a die, memories that are not what their attribute asks for, and
multipliers whose registers no DSP slice can take.
"""

import re
from dataclasses import dataclass, field

from .levels import Analysis
from .loads import RESET_PINS, Loads
from .netlist import FLIP_FLOPS, SHIFTS, ULTRA_RAMS, Netlist

# Registers that stand for a place: a reset on its way over the card, both sides of a crossing between dies.
# As a shift register they would be one LUT in one place.
PLACES = re.compile(r"(^|[./])(reset_?\d+|crossed\w*|status\d+\w*)(\[|$)")
RESET_SHARE = 0.7  # of a unit's registers that a reset may reach: a valid bit guards the data behind it
RESET_REGISTERS = 200  # units with fewer registers have no data to speak of
RESET_LOADS = 12_000  # registers that one reset register of a channel may reach
_MEMORY = re.compile(r'\(\* ram_style = "ultra" \*\)\n(?:  \(\*.*\*\)\n)*  reg \[[^]]*\] (\\\S+ |\w+) ?\[')
_INITIAL = re.compile(r"^  initial begin\n(?P<body>(?:    .*\n)+?)  end$", re.M)

# Multipliers that have no registers around them, unit -> number. They belong to a command, and their operands
# stand still for cycles.
BARE = {
    "symlight_channel.attention.intake": 1,
    "symlight_channel.attention": 1,
    "symlight_channel.fetch": 1,
    "symlight_channel.loader": 1,
    "symlight.kernel.vector.residual.statistics.root": 5,
}


@dataclass
class Facts:
    """What the gate looks at, of one unit, without the units in it."""

    wide_nets: list[tuple[int, str]] = field(default_factory=list)  # (loads, net)
    registers: int = 0
    registers_with_reset: int = 0
    reset_loads: dict[str, int] = field(default_factory=dict)  # net -> registers that it resets
    trapped: list[str] = field(default_factory=list)  # places that became shift registers
    ultra_wanted: int = 0  # memories whose attribute asks for UltraRAM
    ultra_initial: list[str] = field(default_factory=list)  # of these, with initial values
    ultra_cells: int = 0
    bare_multipliers: int = 0

    def to_json(self) -> dict:
        return self.__dict__ | {"wide_nets": [list(one) for one in self.wide_nets]}


def facts_of(netlist: Netlist, analysis: Analysis, loads: Loads, text: str) -> Facts:
    """Facts of one unit; `text` is the Verilog that it was mapped from."""
    found = Facts(
        wide_nets=loads.wide,
        registers=loads.registers,
        registers_with_reset=loads.resettable,
        bare_multipliers=sum(not (operands and products) for _, operands, products in analysis.multipliers),
    )
    for cell in netlist.cells:
        if cell.kind in FLIP_FLOPS:
            for bit in {
                bit for pin in RESET_PINS for bit in cell.pins.get(pin, ()) if not isinstance(bit, str)
            }:
                name = netlist.names.get(bit, f"net {bit}")
                found.reset_loads[name] = found.reset_loads.get(name, 0) + 1
        elif cell.kind in SHIFTS:
            outputs = [
                netlist.names.get(bit, "")
                for pin, bits in cell.pins.items()
                if cell.directions.get(pin) == "output"
                for bit in bits
            ]
            found.trapped += [name for name in outputs if PLACES.search(name)]
        elif cell.kind in ULTRA_RAMS:
            found.ultra_cells += 1
    wanted = [name.strip() for name in _MEMORY.findall(text)]
    found.ultra_wanted = len(wanted)
    begun = "".join(block["body"] for block in _INITIAL.finditer(text))
    found.ultra_initial = [name for name in wanted if re.search(rf"^    {re.escape(name)} ?\[", begun, re.M)]
    return found


def findings(unit: str, facts: Facts) -> list[str]:
    """What is wrong with a unit, one sentence each."""
    found = [f"{unit}: net {name} has {loads} loads" for loads, name in facts.wide_nets]
    share = facts.registers_with_reset / facts.registers if facts.registers else 0.0
    if facts.registers >= RESET_REGISTERS and share > RESET_SHARE:
        found.append(
            f"{unit}: a reset reaches {facts.registers_with_reset} of {facts.registers} registers, at most "
            f"{RESET_SHARE:.0%} may have one"
        )
    found += [f"{unit}: {name} became a shift register" for name in facts.trapped]
    found += [
        f"{unit}: memory {name} is to be UltraRAM and has initial values" for name in facts.ultra_initial
    ]
    if facts.ultra_wanted and facts.ultra_cells < facts.ultra_wanted:
        found.append(
            f"{unit}: {facts.ultra_wanted} memories are to be UltraRAM, it has {facts.ultra_cells} such cells"
        )
    allowed = BARE.get(unit, 0)
    if facts.bare_multipliers > allowed:
        found.append(
            f"{unit}: {facts.bare_multipliers} multipliers lack registers that a DSP slice could take, "
            f"{allowed} may"
        )
    return found


def reset_loads(units: dict[str, Facts], instances: dict[str, dict[str, int]], top: str) -> int:
    """Registers below `top` that a reset reaches; `instances`: unit -> the units in it and their numbers."""
    return units[top].registers_with_reset + sum(
        count * reset_loads(units, instances, child) for child, count in instances[top].items()
    )
