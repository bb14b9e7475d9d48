"""What is packaged is Verilog-2005 for every reader, exactly the files that the scripts name."""

import re

import pytest

from symlight.hw.compiler.verilog import CHECKS, checks_guarded, without_zeros
from symlight.tools.evidence.strict import packaged_sources, strict_findings

pytestmark = pytest.mark.timeout(240)
TOP = "symlight"


def test_the_package_is_plain_verilog(package_folder):
    files = packaged_sources(package_folder)
    assert files == packaged_sources(package_folder, "out_of_context_settings.tcl")
    assert {file.suffix for file in files} == {".v"}, "another ending is another language to Vivado"
    assert strict_findings(files, TOP) == {name: [] for name in strict_findings(files[-1:], files[-1].stem)}
    text = "".join(file.read_text() for file in files)
    assert re.search(rf"^`ifdef {CHECKS}$", text, re.M), "the simulated card is to check its assertions"


MODULE = "module m(clk, a);\n  input clk, a;\n  reg q;\n{}endmodule\n"
ASSERTION = "  always @(posedge clk) begin\n    if (a) begin\n      assert (a);\n    end\n  end\n"
BROKEN = {
    "an assertion": ASSERTION,
    "a process": "  always_ff @(posedge clk) q <= a;\n",
}


@pytest.mark.parametrize("what", BROKEN)
def test_every_reader_refuses_systemverilog(tmp_path, what):
    path = tmp_path / "m.v"
    path.write_text(MODULE.format(BROKEN[what]))
    assert all(strict_findings([path], "m").values()), strict_findings([path], "m")


def test_the_guard_hides_an_assertion(tmp_path):
    path = tmp_path / "m.v"
    path.write_text(checks_guarded(MODULE.format(ASSERTION)))
    assert not any(strict_findings([path], "m").values())


def test_an_assertion_beside_an_assignment_is_refused():
    with pytest.raises(ValueError, match="beside assignments"):
        checks_guarded(MODULE.format(ASSERTION.replace("assert (a);", "assert (a);\n      q <= a;")))


def test_zeros_of_a_memory_go_and_constants_stay():
    zeros = "  initial begin\n    memory[0] = 8'h00;\n    \\memory$1 [1] = 8'd0;\n  end\n"
    assert without_zeros(MODULE.format(zeros)) == MODULE.format("")
    table = MODULE.format(zeros.replace("8'd0", "8'd1"))
    assert without_zeros(table) == table


def written_with_initial_values(text: str) -> list[str]:
    """Memories that a process writes, and that have initial values all the same."""
    found = []
    for module in re.split(r"^(?=module )", text, flags=re.M):
        blocks = re.findall(r"^  initial begin\n(.*?)^  end$", module, re.M | re.S)
        names = {name for block in blocks for name in re.findall(r"^    (\\\S+|\w+) ?\[", block, re.M)}
        found += [
            name for name in names if re.search(rf"^ +{re.escape(name)} ?\[[^\]]+\].* <= ", module, re.M)
        ]
    return found


def test_memories_that_are_written_begin_with_anything(package_folder):
    """UltraRAM has no initial values; and the simulator then starts each memory with random contents."""
    text = "".join(file.read_text() for file in packaged_sources(package_folder))
    assert written_with_initial_values(text) == []
    begin = "  initial begin\n    words[0] = 8'h01;\n  end\n"
    write = "  always @(posedge clk) begin\n    if (a)\n      words[0] <= a;\n  end\n"
    assert written_with_initial_values(MODULE.format(begin + write)) == ["words"]
    assert written_with_initial_values(MODULE.format(begin)) == []
