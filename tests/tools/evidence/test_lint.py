"""Generated Verilog is clean for Verilator and for slang, and both see a broken file."""

import pytest
from amaranth.back import verilog

from symlight.hw.compiler.generate import channel_verilog
from symlight.hw.config import CARDS
from symlight.hw.sequencer.tasks import TaskRunner
from symlight.tools.evidence.lint import SLANG_WAIVED, WAIVED, slang_findings, verilator_findings

pytestmark = pytest.mark.timeout(240)
TOP = "symlight_channel"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A channel of the smallest card."""
    path = tmp_path_factory.mktemp("lint") / f"{TOP}.v"
    path.write_text(channel_verilog(CARDS["sim2"]))
    return path


def test_channel_is_clean(good):
    assert verilator_findings([good], TOP) == []
    assert slang_findings([good], TOP) == []


def test_task_runner_is_clean(tmp_path):
    path = tmp_path / "runner.v"
    path.write_text(verilog.convert(TaskRunner(CARDS["sim2"], reciprocal_latency=13), name="runner"))
    assert verilator_findings([path], "runner") == []
    assert slang_findings([path], "runner") == []


BROKEN = {
    "an unknown module": ("endmodule", "  nowhere part (.a(clk));\nendmodule"),
    "a name that is not declared": ("endmodule", "  assign nothing[3] = clk;\nendmodule"),
    "no syntax": ("endmodule", "  assign = ;\nendmodule"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_sees_a_broken_file(tmp_path, what):
    old, new = BROKEN[what]
    path = tmp_path / "broken.v"
    path.write_text("module broken(clk);\n  input clk;\nendmodule\n".replace(old, new))
    assert verilator_findings([path], "broken")
    assert any("error:" in line for line in slang_findings([path], "broken"))


def test_sees_a_loop_and_a_latch(tmp_path):
    """Warnings that are not waived."""
    path = tmp_path / "broken.v"
    path.write_text(
        "module broken(clk, q, o);\n  input clk, q;\n  output o;\n  reg o;\n  wire a, b;\n"
        "  assign a = b & q;\n  assign b = a | clk;\n"
        "  always @* begin\n    if (q) o = a;\n  end\nendmodule\n"
    )
    found = " ".join(verilator_findings([path], "broken"))
    assert "LATCH" in found and "UNOPTFLAT" in found


def test_every_waiver_has_a_reason():
    assert all(len(reason) > 20 for reason in (WAIVED | SLANG_WAIVED).values())
