"""Ports of a channel that cross dies or meet the platform's AXI: how much logic lies at them, from the
netlist.

An output must be a register. An input may pass the logic of a register slice's handshake or of a memory's
write enable, no more.
"""

from dataclasses import dataclass

from .levels import PortModel

# Levels that an input may have before it is in a register.
AXI_INPUT_LEVELS = 2
CROSSING_INPUT_LEVELS = 0
STATIC = {  # inputs that do not change while anything depends on them
    "index": "constant",
    "pointer": "stable during a run",
    "io_pointer": "stable during a run",
    "ring": "set by LOAD",
    "clk": "clock",
    "rst": "reset, held for several cycles",
}


@dataclass(frozen=True)
class Port:
    """One port of a module."""

    name: str
    direction: str
    side: str  # "axi", "crossing" or "static"
    levels: int  # from a register to an output, or from an input to a register
    where: str  # that register
    through: bool  # a way leads straight from an input to this output
    limit: int

    @property
    def good(self) -> bool:
        return self.side == "static" or self.levels <= self.limit and not self.through


def ports_of(ports: dict, model: PortModel) -> list[Port]:
    """Ports of a channel; `ports` as in `Netlist.ports`."""
    found = []
    for name, (direction, bits) in sorted(ports.items()):
        keys = [(name, index) for index in range(len(bits))]
        side = "static" if name in STATIC else "axi" if name.startswith("bus__") else "crossing"
        ends = [
            (model.setup if direction == "input" else model.launch)[key]
            for key in keys
            if key in (model.setup if direction == "input" else model.launch)
        ]
        levels, where = max(ends, default=(0, "constant" if direction == "output" else "unused"))
        limit = 0 if direction == "output" else AXI_INPUT_LEVELS if side == "axi" else CROSSING_INPUT_LEVELS
        found.append(
            Port(name, direction, side, levels, where, any(model.through.get(key) for key in keys), limit)
        )
    return found
