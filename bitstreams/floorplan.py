"""The floorplan that v++ hands to Vivado before placement, and the wires between the dies that it takes."""

from amaranth.hdl import Shape
from amaranth.lib import wiring

from symlight.hw.axi import AxiMaster, axi_pins
from symlight.hw.channel.channel_ports import channel_signature
from symlight.hw.config import Engine
from symlight.hw.floorplan import SEQUENCER_DIE, channels_of_die
from symlight.hw.types import ACC_BITS
from symlight.hw.vector.reduce import DrainReduce

from .platform import AlveoU50CPlatform

SLL_WIRES = 23_040  # between the two dies of a U50 (Vivado's count of the dynamic region)
STATIC_PORTS = {"index"}  # constants
CONSTANT_AXI = {"arsize", "arburst", "awsize", "awburst", "awlen", "wlast"}  # as driven by the kernel
CHANNEL_CELL, KERNEL_CELL = "channel{number:02d}", "kernel"
SEQUENCER_CELLS = ("vector", "runner", "dispatch", "load", "state", "tokens", "session", "table", "control")


def _bits(member: wiring.Member) -> int:
    width: int = Shape.cast(member.shape).width
    for count in member.dimensions:
        width *= count
    return width


def sll_wires(engine: Engine) -> dict[str, int]:
    """Wires that cross between the dies, by what they carry; every net once however many it feeds."""
    first, second = channels_of_die(engine.channels)
    # Channels that lie apart from the sequencer, and those apart from the memory.
    apart = len((first, second)[1 - SEQUENCER_DIE])
    members = channel_signature(engine).members
    inputs = {name: _bits(m) for name, m in members.items() if m.is_port and m.flow is wiring.In}
    outputs = {name: _bits(m) for name, m in members.items() if m.is_port and m.flow is wiring.Out}
    pointers = inputs.pop("pointer")
    drain = outputs.pop("drain")
    outputs.pop("drain_valid")  # of channel 0 alone
    pins = axi_pins(AxiMaster(engine.beat_bytes).create())
    bus = sum(len(pin) for name, pin in pins.items() if name not in CONSTANT_AXI)
    assert drain == ACC_BITS * engine.lanes
    return {
        "to the channels: commands, broadcast, requests": sum(
            bits for name, bits in inputs.items() if name not in STATIC_PORTS
        ),
        "buffer pointers": apart * pointers,
        "sums of the drain bus": DrainReduce.crossing_words(apart, engine) * drain + 1,
        "status of the channels": apart * sum(outputs.values()),
        "AXI of the channels away from the memory": len(second) * bus,
        "control bus and interrupt": 200,
    }


def floorplan_tcl(engine: Engine) -> str:
    """Tcl that runs before placement (STEPS.PLACE_DESIGN.TCL.PRE), for a kernel of `engine`."""
    dies = channels_of_die(engine.channels)
    lines = [
        "# Vivado, within v++: which die each part of the kernel is meant for, before placement.",
        "# Written from hw/floorplan.py, as are the reduction of the drain bus and the page on resources.",
        "",
        "proc parts {pattern} {",
        '    return [get_cells -quiet -hierarchical -filter "NAME =~ $pattern && IS_PRIMITIVE == 0"]',
        "}",
        "proc place {pattern die} {",
        "    set found [parts $pattern]",
        "    if {[llength $found] == 0} {",
        '        puts "CRITICAL WARNING: floorplan: no cell is called $pattern; the hierarchy was flattened"',
        "        return",
        "    }",
        "    set_property USER_SLR_ASSIGNMENT $die $found",
        "}",
        "",
    ]
    for die, channels in zip(AlveoU50CPlatform.slrs, dies, strict=True):
        lines += [f"place */{KERNEL_CELL}/{CHANNEL_CELL.format(number=k)} {die}" for k in channels]
    sequencer = AlveoU50CPlatform.slrs[SEQUENCER_DIE]
    lines += [f"place */{KERNEL_CELL}/{name} {sequencer}" for name in SEQUENCER_CELLS]
    lines += [
        "",
        "# Registers on both sides of a crossing go into the registers of the wires between the dies.",
        "foreach pattern {*/kernel/reduce/crossed* */kernel/status*} {",
        '    set found [get_cells -quiet -hierarchical -filter "NAME =~ $pattern && IS_SEQUENTIAL == 1"]',
        "    if {[llength $found] != 0} {",
        "        set_property USER_SLL_REG true $found",
        "    }",
        "}",
    ]
    return "\n".join(lines) + "\n"
