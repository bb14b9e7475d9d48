"""The kernel's Verilog in the two parts that are simulated: one channel, and everything else.

Verilator gives every instance of a module code of its own. The channel is therefore verilated once, as a
model that the harness instantiates for every channel; in the rest of the kernel a module without content
stands in its place, whose ports the harness reads and writes (design.h).
"""

import re
from dataclasses import dataclass

from symlight.base.errors import UserError
from symlight.hw.axi import AxiMaster
from symlight.hw.config import Engine
from symlight.hw.kernel.channels import CHANNEL_MODULE

BUS = "bus__"  # prefix of a channel's AXI ports
# AXI name -> port of the channel; the same names at any width
AXI_PORTS = {path[-1]: BUS + "__".join(path) for path, *_ in AxiMaster(1).flatten(AxiMaster(1).create())}
KERNEL_PREFIX, CHANNEL_PREFIX = "Vsymlight", "Vchannel"
# Verilator renames what C++ reserves.
_RESERVED = {"abort", "clock", "signal", "interrupt"}


@dataclass(frozen=True)
class Port:
    """A port of the channel: "input" or "output", "[msb:0] " or "", name."""

    direction: str
    width: str
    name: str

    @property
    def member(self) -> str:
        """Its variable in the verilated classes."""
        return f"__SYM__{self.name}" if self.name in _RESERVED else self.name.replace("__", "___05F")

    @property
    def is_bus(self) -> bool:
        return self.name.startswith(BUS)


def defines(text: bytes, module: str) -> bool:
    """Whether Verilog `text` defines `module`."""
    return re.search(rf"^module {module}\b".encode(), text, re.M) is not None


def channel_ports(text: str) -> list[Port]:
    """Ports of module `CHANNEL_MODULE` in Verilog `text`; empty when the text has no such module."""
    module = re.search(rf"^module {CHANNEL_MODULE}\(.*?^endmodule", text, re.M | re.S)
    if module is None:
        return []
    found = re.findall(r"^  (input|output) (\[\d+:0\] )?(\w+);$", module[0], re.M)
    ports = [Port(*port) for port in found]
    listed = module[0].partition("(")[2].partition(");")[0].split(",")
    if sorted(port.name for port in ports) != sorted(name.strip() for name in listed):
        raise UserError(
            f"the ports of module {CHANNEL_MODULE} are not declared one a line; "
            "generate the kernel again (symlight verilog)"
        )
    return ports


def empty_channel(ports: list[Port]) -> str:
    """Verilog of the module that stands for the channel: the harness reads its inputs and writes its
    outputs."""
    lines = [
        f"module {CHANNEL_MODULE}({', '.join(port.name for port in ports)});",
        "  /* verilator no_inline_module */",
    ]
    for port in ports:
        if port.direction == "input":
            lines.append(f"  input {port.width}{port.name} /* verilator public_flat_rd */;")
        else:
            lines.append(f"  output reg {port.width}{port.name} /* verilator public_flat_rw */;")
    return "\n".join([*lines, "endmodule", ""])


def binding(engine: Engine, ports: list[Port], *, checked: bool) -> str:
    """ports.h: what design.h must know of the verilated classes. `ports` is empty for a kernel that is
    simulated whole."""
    lines = [
        "#pragma once",
        f"#define SPLIT {int(bool(ports))}",
        f"constexpr int CHANNELS = {engine.channels};",
        f"constexpr unsigned BEAT_BYTES = {engine.beat_bytes};",
        f"constexpr bool CHECKED = {str(checked).lower()};",
        "#include <cstring>",
        f'#include "{KERNEL_PREFIX}.h"',
    ]
    return "\n".join([*lines, *(_split(engine, ports, checked) if ports else _whole(engine))]) + "\n"


def _whole(engine: Engine) -> list[str]:
    return [
        f"inline void bind_ports({KERNEL_PREFIX}& top, AxiPorts* ports) {{",
        *(
            f"    ports[{k}].{port} = &top.m_axi_hbm{k:02d}_{port};"
            for k in range(engine.channels)
            for port in AXI_PORTS
        ),
        "}",
    ]


def _split(engine: Engine, ports: list[Port], checked: bool) -> list[str]:
    stub = f"{KERNEL_PREFIX}_{CHANNEL_MODULE}"
    inputs = [p.member for p in ports if p.direction == "input" and not p.is_bus and p.name != "clk"]
    outputs = [p.member for p in ports if p.direction == "output" and (checked or not p.is_bus)]
    return [
        f'#include "{CHANNEL_PREFIX}.h"',
        f'#include "{stub}.h"',
        f"using Place = {stub};      // of a channel in the kernel",
        f"inline void bind_places({KERNEL_PREFIX}& top, Place** places) {{",
        *(
            f"    places[{k}] = top.__PVT__symlight__DOT__kernel__DOT__channel{k:02d}__DOT__instance;"
            for k in range(engine.channels)
        ),
        "}",
        f"inline void bind_ports({CHANNEL_PREFIX}& channel, AxiPorts& ports) {{",
        *(f"    ports.{axi} = &channel.{Port('', '', port).member};" for axi, port in AXI_PORTS.items()),
        "}",
        f"inline void to_channel({CHANNEL_PREFIX}& channel, const Place& place) {{",
        *(f"    channel.{name} = place.{name};" for name in inputs),
        "}",
        f"inline void from_channel(Place& place, const {CHANNEL_PREFIX}& channel) {{",
        *(f"    place.{name} = channel.{name};" for name in outputs),
        "}",
        f"inline const char* changed_output(const Place& place, const {CHANNEL_PREFIX}& channel) {{",
        *(
            f'    if (std::memcmp(&place.{name}, &channel.{name}, sizeof place.{name})) return "{name}";'
            for name in outputs
        ),
        "    return nullptr;",
        "}",
    ]
