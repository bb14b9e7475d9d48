"""Loads of the nets of a mapped netlist, and what resets reach: a unit's ports hand on the loads in it."""

from dataclasses import dataclass, field

from .netlist import FLIP_FLOPS, Netlist

LIMIT = 500  # loads of a net that is neither a clock nor a reset
CLOCK_PINS = {"C", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK"}
RESET_PINS = {"R", "S"}


@dataclass
class Loads:
    """What was found in one unit.

    Members
    -------
    ports : dict
        (port, bit) of an input -> loads inside it, resets of flip-flops left out.
    wide : list of (loads, name)
        Nets of the unit with more than `LIMIT` loads, widest first; a net that a port brings counts in the
        parent.
    resettable, registers : int
        Flip-flops with a reset that is no constant, and all, without the units in it.
    """

    ports: dict = field(default_factory=dict)
    wide: list = field(default_factory=list)
    resettable: int = 0
    registers: int = 0


def loads_of(netlist: Netlist, library: dict[str, Loads]) -> Loads:
    """Loads in `netlist`; `library` has the units that it instantiates."""
    count: dict = {}
    found = Loads()
    for cell in netlist.cells:
        inside = library.get(cell.kind)
        if cell.kind in FLIP_FLOPS:
            found.registers += 1
            found.resettable += any(
                not isinstance(bit, str) for pin in RESET_PINS for bit in cell.pins.get(pin, ())
            )
        for pin, bits in cell.pins.items():
            if cell.directions.get(pin) == "output" or pin in CLOCK_PINS:
                continue
            if pin in RESET_PINS and cell.kind in FLIP_FLOPS:
                continue
            for index, bit in enumerate(bits):
                if not isinstance(bit, str):
                    count[bit] = count.get(bit, 0) + (inside.ports.get((pin, index), 0) if inside else 1)
    inputs: dict[int, tuple[str, int]] = {}
    for name, (direction, bits) in netlist.ports.items():
        if direction == "input":
            inputs |= {bit: (name, index) for index, bit in enumerate(bits) if not isinstance(bit, str)}
    found.ports = {key: count.get(bit, 0) for bit, key in inputs.items()}
    wide = {bit: loads for bit, loads in count.items() if loads > LIMIT and bit not in inputs}
    found.wide = sorted(((n, netlist.names.get(bit, f"net {bit}")) for bit, n in wide.items()), reverse=True)
    return found
