"""tools.evidence.toggles and power: counts that are known, and what the estimate follows."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from symlight.hw.config import CARDS
from symlight.tools.evidence import power
from symlight.tools.evidence.power import Range, dynamic, total
from symlight.tools.evidence.toggles import count, main
from tests.benches.places import EVIDENCE

VCD = """$timescale 1ns $end
$scope module symlight $end
$var wire 1 ! clk $end
$scope module kernel $end
$var reg 4 " status [3:0] $end
$var wire 4 x status_wire [3:0] $end
$scope module vector $end
$var reg 1 # valid $end
$upscope $end
$scope module channel07 $end
$var reg 8 $ word [7:0] $end
$var wire 1 ! clk $end
$upscope $end
$scope module other $end
$var reg 8 $ alias [7:0] $end
$upscope $end
$upscope $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
0!
b0 "
bxxxx x
0#
bx $
$end
#1
1!
b1111 "
b1111 x
1#
b11110000 $
#2
0!
#3
1!
b1010 "
0#
b11110001 $
#4
0!
b0 $
"""


def test_known_counts():
    found = count(VCD.splitlines())
    assert found.cycles == 2
    channel, vector, rest = (found.parts[name] for name in ("channel", "vector unit", "rest"))
    assert (rest.bits, rest.toggles) == (4, 4 + 2)
    assert (vector.bits, vector.toggles) == (1, 2)
    assert (channel.bits, channel.toggles) == (8, 1 + 5), "from an unknown value nothing counts"
    assert channel.rate(found.cycles) == 6 / 16


def test_another_clock_is_asked_for():
    with pytest.raises(ValueError, match="'ap_clk'"):
        count(VCD.splitlines(), "ap_clk")


def test_the_command_writes_json(tmp_path):
    (tmp_path / "w.vcd").write_text(VCD)
    result = CliRunner().invoke(main, [str(tmp_path / "w.vcd"), "--out", str(tmp_path / "t.json")])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "t.json").read_text())["parts"]["channel"]["rate"] == 0.375


KERNEL = {
    "channel": {"ff": 15_000, "bram": 12.0, "uram": 8, "dsp": 60},
    "rest": {"ff": 100_000, "bram": 16.0, "uram": 22, "dsp": 400},
}
COUNTED = {
    "port_use": 0.5,
    "parts": {
        "channel": {"bits": 300, "rate": 0.05},
        "vector unit": {"bits": 300, "rate": 0.01},
        "rest": {"bits": 100, "rate": 0.03},
    },
}


def watts(engine=CARDS["u50c"], port_use=0.9, counted=COUNTED) -> dict[str, Range]:
    return dynamic(engine, KERNEL, counted, port_use)


def test_the_memory_s_share_is_bits_times_energy():
    engine = CARDS["u50c"]
    hbm = watts(port_use=1.0)["HBM"]
    bits = 32 * 256 * engine.clock_mhz * 1e6
    assert hbm.low == pytest.approx(bits * power.HBM_BIT.low * 1e-12)
    assert hbm.high == pytest.approx(bits * power.HBM_BIT.high * 1e-12)


def test_toggles_are_those_of_each_part():
    """Channels scale with the beats they read, the rest has the mean rate of its bits."""
    toggling = 32 * 15_000 * 0.05 * 0.9 / 0.5 + 100_000 * (300 * 0.01 + 100 * 0.03) / 400
    expected = power.NET_TOGGLE.low * 1e-12 * toggling * CARDS["u50c"].clock_mhz * 1e6
    assert watts()["registers, wires and logic"].low == pytest.approx(expected)


def test_what_the_estimate_follows():
    """More ports and more clock take more; a design that does nothing takes its clock alone."""
    base, engine = total(watts()), CARDS["u50c"]
    assert 0 < base.low < base.high
    faster = total(watts(replace(engine, clock_mhz=2 * engine.clock_mhz)))
    assert faster.low == pytest.approx(2 * base.low)
    sums = [total(watts(CARDS[name])).high for name in power.STEPS]
    assert sums == sorted(sums) and len(set(sums)) == 3
    still = {name: part | {"rate": 0.0} for name, part in COUNTED["parts"].items()}
    idle = watts(port_use=0.0, counted=COUNTED | {"parts": still})
    assert [name for name, one in idle.items() if one != Range(0.0, 0.0)] == ["clock"]


def test_the_page_has_the_committed_estimate():
    """docs/evidence/power.md shows the estimate of the committed evidence; `make evidence` writes both."""
    if not (EVIDENCE / "toggles.json").exists():
        pytest.skip("not measured yet")
    document = (EVIDENCE / "power.md").read_text()
    assert power.with_table(document, EVIDENCE) == document
    wrong = document.replace("| HBM | ", "| HBM | 1", 1)
    assert power.with_table(wrong, EVIDENCE) == document != wrong


def test_without_counts_the_page_stays(tmp_path):
    assert power.with_table("a page", tmp_path) == "a page"
