"""Kernels simulated in parts: same cycles as whole, any number of threads, and the check of what makes it
exact."""

import pytest

from symlight.base.errors import UserError
from symlight.hw.config import Engine
from symlight.sim.build import build_model
from symlight.sim.model import Model, SimulationError, Stop
from symlight.sim.parts import AXI_PORTS, channel_ports, empty_channel
from tests.benches.places import SIMULATORS

pytestmark = pytest.mark.timeout(120)
CHANNELS = 3
WIDTHS = {
    "araddr": 64,
    "awaddr": 64,
    "rdata": 256,
    "wdata": 256,
    "wstrb": 32,
    "arlen": 8,
    "awlen": 8,
    "arsize": 3,
    "awsize": 3,
    "arburst": 2,
    "awburst": 2,
    "rresp": 2,
    "bresp": 2,
}
INPUTS = {"arready", "rdata", "rresp", "rlast", "rvalid", "awready", "wready", "bresp", "bvalid"}
CONTROL_INPUTS = {
    "awaddr": 12,
    "awvalid": 1,
    "wdata": 32,
    "wstrb": 4,
    "wvalid": 1,
    "bready": 1,
    "araddr": 12,
    "arvalid": 1,
    "rready": 1,
}
CONTROL_OUTPUTS = {
    "awready": 1,
    "wready": 1,
    "bresp": 2,
    "bvalid": 1,
    "arready": 1,
    "rdata": 32,
    "rresp": 2,
    "rvalid": 1,
}


def _bits(width):
    return f"[{width - 1}:0] " if width > 1 else ""


def _declare(ports):
    """Declarations of an AXI bus; all outputs of a master that asks for nothing are zero."""
    lines, idle = [], []
    for name, port in ports.items():
        lines.append(f"  {'input' if name in INPUTS else 'output'} {_bits(WIDTHS.get(name, 1))}{port};")
        if name not in INPUTS:
            idle.append(f"  assign {port} = 0;")
    return lines, idle


def channel_text(answer):
    """A channel whose output `y` is a register, or the expression `answer`."""
    bus, idle = _declare(AXI_PORTS)
    ports = ["clk", "rst", "index", "x", "y", *AXI_PORTS.values()]
    return "\n".join(
        [
            f"module symlight_channel({', '.join(ports)});",
            "  input clk;",
            "  input rst;",
            "  input [4:0] index;",
            "  input [69:0] x;",
            "  output [69:0] y;",
            *bus,
            *idle,
            "  reg [69:0] r;",
            "  always @(posedge clk) r <= rst ? 0 : x + index + 1;",
            f"  assign y = {answer};",
            "endmodule",
            "",
        ]
    )


def kernel_text():
    """A kernel that sums what its channels make of a counter, and interrupts when the sum is 3 * 1000 + 0 + 1
    + 2 + 3."""
    lines = ["ap_clk", "ap_rst_n", "interrupt"]
    body = ["  input ap_clk;", "  input ap_rst_n;", "  output interrupt;"]
    for name, width in CONTROL_INPUTS.items():
        lines.append(f"s_axi_control_{name}")
        body.append(f"  input {_bits(width)}s_axi_control_{name};")
    for name, width in CONTROL_OUTPUTS.items():
        lines.append(f"s_axi_control_{name}")
        body += [f"  output {_bits(width)}s_axi_control_{name};", f"  assign s_axi_control_{name} = 0;"]
    for k in range(CHANNELS):
        bus, idle = _declare({name: f"m_axi_hbm{k:02d}_{name}" for name in AXI_PORTS})
        body += bus + idle
        lines += [f"m_axi_hbm{k:02d}_{n}" for n in AXI_PORTS]
    inner = [
        "module kernel(clk, rst, done);",
        "  input clk;",
        "  input rst;",
        "  output reg done;",
        "  reg [69:0] n;",
    ]
    inner.append("  always @(posedge clk) n <= rst ? 0 : n + 1;")
    places = []
    for k in range(CHANNELS):
        inner += [f"  wire [69:0] y{k};", f"  place channel{k:02d}(clk, rst, 5'd{k}, n, y{k});"]
        places.append(f"y{k}")
    inner += [f"  always @(posedge clk) done <= ({' + '.join(places)}) == 70'd3006;", "endmodule", ""]
    wires = ", ".join(f".{port}({'0' if n in INPUTS else ''})" for n, port in AXI_PORTS.items())
    return "\n".join(
        [
            f"module symlight({', '.join(lines)});",
            *body,
            "  kernel kernel(ap_clk, !ap_rst_n, interrupt);",
            "endmodule",
            "",
            *inner,
            "module place(clk, rst, index, x, y);",
            "  input clk;",
            "  input rst;",
            "  input [4:0] index;",
            "  input [69:0] x;",
            "  output [69:0] y;",
            f"  symlight_channel \\instance (.clk(clk), .rst(rst), .index(index), .x(x), .y(y), {wires});",
            "endmodule",
            "",
        ]
    )


def run(folder, answer, *, whole, threads=1, limit=5000):
    """Cycles until the interrupt."""
    (folder / "symlight.v").write_text(kernel_text())
    (folder / "symlight_channel.v").write_text(channel_text(answer))
    library = build_model(folder, Engine(channels=CHANNELS), SIMULATORS, whole=whole, optimise="-O0")
    model = Model(library, channels=CHANNELS, clock_mhz=100, threads=threads)
    start = model.cycles
    assert model.run(limit) is Stop.INTERRUPT
    return model.cycles - start


def test_parts_take_the_cycles_of_the_whole(tmp_path):
    expected = run(tmp_path, "r", whole=True)
    assert 900 < expected < 1001
    assert [run(tmp_path, "r", whole=False, threads=t) for t in (1, 2, 3, 5)] == [expected] * 4


def test_an_output_that_follows_an_input_is_found(tmp_path):
    with pytest.raises(SimulationError, match="y of a channel follows an input"):
        run(tmp_path, "r ^ x[0]", whole=False)


def test_ports_are_read_from_the_channel_alone():
    text = channel_text("r")
    ports = channel_ports(text + kernel_text())
    assert [(p.direction, p.width, p.name) for p in ports[:5]] == [
        ("input", "", "clk"),
        ("input", "", "rst"),
        ("input", "[4:0] ", "index"),
        ("input", "[69:0] ", "x"),
        ("output", "[69:0] ", "y"),
    ]
    assert len(ports) == 5 + len(AXI_PORTS) and sum(p.is_bus for p in ports) == len(AXI_PORTS)
    assert channel_ports(kernel_text()) == []
    assert (
        channel_ports(
            empty_channel(ports)
            .replace(" /* verilator public_flat_rd */", "")
            .replace(" /* verilator public_flat_rw */", "")
            .replace("output reg", "output")
        )
        == ports
    )
    with pytest.raises(UserError, match="generate the kernel again"):
        channel_ports(text.replace("  input rst;\n", ""))
