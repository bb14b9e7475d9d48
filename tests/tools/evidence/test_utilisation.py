"""tools.evidence.utilisation, boundaries and modules: counts, splits, ports, units of generated
Verilog."""

import pytest

from symlight.hw.kernel.channels import CHANNEL_MODULE
from symlight.tools.evidence.boundaries import ports_of
from symlight.tools.evidence.collect import kernel_resources
from symlight.tools.evidence.levels import analyse
from symlight.tools.evidence.modules import units
from symlight.tools.evidence.utilisation import INTERCONNECT, SLR, Resources, own, split, totals
from tests.benches.tools.made_netlist import Maker

pytestmark = pytest.mark.timeout(60)


def test_counts_and_multiplies():
    child = Maker("child")
    child.register(child.lut(child.register("0")))
    child.cell("RAMB18E2", DOUTADOUT=child.net())
    child.cell("RAM64M8")
    parent = Maker("parent")
    for _ in range(3):
        parent.cell("child")
    parent.cell("URAM288")
    parent.cell("DSP48E2")
    parent.carry(parent.register("0"), 8)
    found = totals({"child": own(child.netlist(), {}), "parent": own(parent.netlist(), {"child": 3})})
    assert found["child"] == Resources(lut=1 + 8, ff=2, bram=0.5)
    assert found["parent"] == Resources(lut=27, ff=7, bram=1.5, uram=1, dsp=1)
    with pytest.raises(ValueError, match="type child is unknown"):
        own(parent.netlist(), {})


def test_split_balances_the_dies():
    result = split(Resources(dsp=100), 32, Resources(dsp=600))
    assert (result["channels_on_slr0"], result["channels_on_slr1"], result["fits"]) == (16, 16, True)
    assert result["slr1"]["dsp"] == 2200 and result["slr0"]["lut"] == INTERCONNECT.lut
    assert not result["within_budget"], "2,200 of 2,580 DSP slices are beyond it"
    assert split(Resources(dsp=50), 32, Resources(dsp=600))["within_budget"]
    assert not split(Resources(lut=12_000), 32, Resources())["within_budget"], "the interconnect counts"
    assert split(Resources(), 16, Resources())["interconnect"]["lut"] == INTERCONNECT.lut / 2
    assert not split(Resources(dsp=200), 32, Resources())["fits"]
    assert SLR.share(SLR) == Resources(1, 1, 1, 1, 1)


def test_the_kernel_is_its_channels_and_the_rest():
    """Channels below a level of hierarchy, too; what the channels have is not in the rest."""
    channel, column = Resources(lut=700, ff=11, dsp=3), Resources(lut=5)
    parts = {
        CHANNEL_MODULE: (channel, {}),
        "column": (column, {CHANNEL_MODULE: 2}),
        "symlight": (Resources(lut=1000, ff=50, uram=4), {"column": 3, CHANNEL_MODULE: 1}),
    }
    found = kernel_resources(parts, totals(parts))
    assert found["channels"] == 7
    assert found["channel"] == channel.to_json()
    assert found["rest"] == Resources(lut=1015, ff=50, uram=4).to_json()
    assert found["whole"] == (Resources(lut=1015, ff=50, uram=4) + channel * 7).to_json()
    dies = found["split"]
    assert dies["channels_on_slr0"] + dies["channels_on_slr1"] == 7
    both = dies["slr0"]["lut"] + dies["slr1"]["lut"]
    assert both == pytest.approx(found["whole"]["lut"] + dies["interconnect"]["lut"])


def test_ports_must_be_registers():
    maker = Maker()
    i, ready = maker.net(), maker.net()
    maker.port("cast", "input", i)
    maker.port("bus__arready", "input", ready)
    maker.port("good", "output", maker.register("0"))
    maker.port("late", "output", maker.lut(maker.register("0")))
    maker.port("straight", "output", maker.lut(i))
    maker.register(maker.luts(i, 1))
    maker.register(maker.luts(ready, 2))
    netlist = maker.netlist()
    ports = {port.name: port for port in ports_of(netlist.ports, analyse(netlist).ports)}
    assert {name for name, port in ports.items() if port.good} == {"bus__arready", "good"}
    assert ports["late"].levels == 1 and ports["straight"].through and ports["cast"].levels == 1


VERILOG = """module top(a);
  input a;
  \\small.one  first (
    .a(a)
  );
  \\big$1  second (
    .a(a)
  );
  \\big$1  third (
    .a(a)
  );
endmodule

module \\small.one (a);
  input a;
  // this comment says small$7
endmodule

module \\big$1 (a);
  input a;
  wire \\name$5 ;
%s
endmodule
"""


def test_units_and_keys():
    text = VERILOG % ("  // filling\n" * 2000)
    big, top = units(text, "top")
    assert (big.name, top.name, top.units) == ("big_n1", "top", {"big_n1": 2})
    assert "(* blackbox *)" in top.text and "filling" not in top.text and "small.one" in top.text
    # The converter's numbers and the unit's own name do not count; everything else does.
    again = units(text.replace("$5", "$77").replace("big$1", "big$3"), "top")
    assert again[0].key == big.key and again[1].key != top.key  # the parent names its black box
    assert units(text.replace("filling", "fitting"), "top")[0].key != big.key
