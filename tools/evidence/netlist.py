"""Mapped netlists as yosys writes them (JSON), and what the cells of UltraScale+ mean for the depth of logic.

Levels: a LUT and a MUXF are 1, a carry chain is 2 for every 32 bits begun, the multiplier of a DSP slice is
4 unless its registers on both
sides are there, a memory's output is 2 unless a register follows that the memory can absorb.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

LUT_LEVELS = 1
CARRY_LEVELS, CARRY_BITS = 2, 32  # levels of every CARRY_BITS bits begun
MULTIPLIER_LEVELS = 4  # a DSP slice's multiplier without registers around it
MEMORY_LEVELS = 2  # clock to output of a block RAM or UltraRAM without its output register
LUTRAM_LEVELS = 1  # distributed RAM and shift registers: a LUT, also from the clock

FLIP_FLOPS = {"FDRE", "FDSE", "FDCE", "FDPE"}
LUTS = {f"LUT{k}" for k in range(1, 7)}
INVERTERS = {"INV"}
MUXES = {"MUXF7", "MUXF8", "MUXF9"}
BLOCK_RAMS = {"RAMB18E2": 0.5, "RAMB36E2": 1.0}  # in RAMB36
ULTRA_RAMS = {"URAM288", "URAM288_BASE"}
DSPS = {"DSP48E2"}
SHIFTS = {"SRL16E", "SRLC16E", "SRLC32E"}
CARRIES = {"CARRY4": 4, "CARRY8": 8}
IGNORED = {"$scopeinfo", "GND", "VCC"}
_LUT_RAM = re.compile(r"RAM\d+(M|X)\d+")
LUT_RAM_SIZES = {  # LUTs of a distributed RAM cell
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32X1S": 1,
    "RAM64X1S": 1,
    "RAM128X1S": 2,
    "RAM256X1S": 4,
    "RAM512X1S": 8,
    "RAM32X16DR8": 8,
    "RAM64X8SW": 8,
}


def is_lut_ram(kind: str) -> bool:
    return bool(_LUT_RAM.match(kind))


@dataclass
class Cell:
    """One cell; pins by name, each a list of bits (numbers of nets, or "0", "1", "x")."""

    name: str
    kind: str
    parameters: dict
    directions: dict
    pins: dict


@dataclass
class Netlist:
    """One mapped module."""

    name: str
    ports: dict  # name -> (direction, bits)
    cells: list
    names: dict = field(default_factory=dict)  # bit -> a name in the design


_POOR = re.compile(r"^\$|(^|\.)_n\d+|\$abc\$|\$techmap")  # made by a tool, not by the design


def _plain(name: str) -> str:
    return name.removeprefix("\\")


def read_netlist(path: Path) -> Netlist:
    """The top module of a yosys JSON netlist."""
    modules = json.loads(path.read_text())["modules"]
    tops = [name for name, module in modules.items() if int(module["attributes"].get("top", "0"), 2)]
    if len(tops) != 1:
        raise ValueError(f"{path}: {len(tops)} modules are marked as top")
    module = modules[tops[0]]
    netlist = Netlist(
        tops[0],
        {name: (port["direction"], port["bits"]) for name, port in module["ports"].items()},
        [
            Cell(_plain(name), cell["type"], cell["parameters"], cell["port_directions"], cell["connections"])
            for name, cell in module["cells"].items()
            if cell["type"] not in IGNORED
        ],
    )
    for name, net in module["netnames"].items():
        for index, bit in enumerate(net["bits"]):
            label = f"{name}[{index}]" if len(net["bits"]) > 1 else name
            old = netlist.names.get(bit)
            if not isinstance(bit, str) and (old is None or _worse(old, label, net["hide_name"])):
                netlist.names[bit] = label
    return netlist


def _worse(old: str, new: str, hidden: int) -> bool:
    """A short name of the design's own is better than any other."""

    def rank(name: str) -> tuple:
        return bool(_POOR.search(name)), len(name), name

    return not hidden and rank(old) > rank(new)


@dataclass
class Model:
    """What a cell means: combinational arcs, outputs that start at a clock edge, inputs that end at one."""

    arcs: list = field(default_factory=list)  # (input bit, output bit, levels)
    starts: list = field(default_factory=list)  # (output bit, levels)
    ends: list = field(default_factory=list)  # (input bit, levels, pin)


def _nets(bits):
    return [bit for bit in bits if not isinstance(bit, str)]


def _by_direction(cell: Cell, direction: str):
    for pin, bits in cell.pins.items():
        if cell.directions[pin] == direction:
            for bit in _nets(bits):
                yield pin, bit


_CLOCKS = re.compile(r"C|CLK|WCLK|CLKARDCLK|CLKBWRCLK")
_READ_ADDRESS = re.compile(r"DPRA\d*|ADDR[A-Z]|RADR\d+")


def model(cell: Cell, exposed: frozenset) -> Model:
    """Levels through `cell`; `exposed` are the bits that lead to anything but data inputs of flip-flops."""
    if cell.kind in LUTS | MUXES | INVERTERS:
        outputs = [bit for _pin, bit in _by_direction(cell, "output")]
        return Model(arcs=[(a, o, LUT_LEVELS) for _pin, a in _by_direction(cell, "input") for o in outputs])
    data = [(pin, bit) for pin, bit in _by_direction(cell, "input") if not _CLOCKS.fullmatch(pin)]
    outputs = list(_by_direction(cell, "output"))
    if cell.kind in FLIP_FLOPS:
        return Model(starts=[(bit, 0) for _pin, bit in outputs], ends=[(bit, 0, pin) for pin, bit in data])
    if cell.kind in BLOCK_RAMS or cell.kind in ULTRA_RAMS:
        registered = all(bit not in exposed for _pin, bit in outputs)
        return Model(
            starts=[(bit, 0 if registered else MEMORY_LEVELS) for _pin, bit in outputs],
            ends=[(bit, 0, pin) for pin, bit in data],
        )
    if cell.kind in DSPS:
        return Model(arcs=[(a, o, MULTIPLIER_LEVELS) for _pin, a in data for _p, o in outputs])
    if cell.kind in SHIFTS:
        address = [bit for pin, bit in data if pin.startswith("A")]
        return Model(
            arcs=[(a, o, LUTRAM_LEVELS) for a in address for pin, o in outputs if pin == "Q"],
            starts=[(bit, LUTRAM_LEVELS) for _pin, bit in outputs],
            ends=[(bit, 0, pin) for pin, bit in data if not pin.startswith("A")],
        )
    if is_lut_ram(cell.kind):
        return _lut_ram(cell, data, outputs)
    raise ValueError(f"cell {cell.name}: type {cell.kind} is unknown to the analysis of paths")


def _lut_ram(cell: Cell, data, outputs) -> Model:
    """Asynchronous reads; the write side ends at the clock. Port x of a RAM32M or RAM64M reads at its own
    address."""
    found = Model(
        starts=[(bit, LUTRAM_LEVELS) for _pin, bit in outputs], ends=[(bit, 0, pin) for pin, bit in data]
    )
    for out, o in outputs:
        for pin, a in data:
            if out.startswith("DO") and pin.startswith("ADDR"):
                reads = pin[4:] == out[2:] or not out[2:]
            elif out == "DPO":
                reads = pin.startswith("DPRA")
            else:  # SPO, O
                reads = bool(re.fullmatch(r"A\d*", pin))
            if reads:
                found.arcs.append((a, o, LUTRAM_LEVELS))
    return found
