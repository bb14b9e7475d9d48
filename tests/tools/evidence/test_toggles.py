"""tools.evidence.toggles and power: counts that are known, and what the estimate follows."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from symlight.hw.config import CARDS
from symlight.tools.evidence import power
from symlight.tools.evidence.power import Range, dynamic, ramp, total
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


WHOLE = {"ff": 500_000, "bram": 400.0, "uram": 278, "dsp": 2000}
ACTIVITY = {"channel": {"bits": 300, "rate": 0.1}, "rest": {"bits": 100, "rate": 0.02}}


def test_the_memory_s_share_is_bits_times_energy():
    engine = CARDS["u50c"]
    hbm = dynamic(engine, WHOLE, ACTIVITY, 1.0)["HBM"]
    bits = 32 * 256 * engine.clock_mhz * 1e6
    assert hbm.low == pytest.approx(bits * power.HBM_BIT.low * 1e-12)
    assert hbm.high == pytest.approx(bits * power.HBM_BIT.high * 1e-12)


def test_what_the_estimate_follows():
    """More ports, more use and more toggles take more; a design that does nothing takes its clock alone."""
    engine = CARDS["u50c"]
    base = total(dynamic(engine, WHOLE, ACTIVITY, 0.9))
    assert base.low < base.high
    faster = total(dynamic(replace(engine, clock_mhz=2 * engine.clock_mhz), WHOLE, ACTIVITY, 0.9))
    assert faster.low == pytest.approx(2 * base.low)
    busy = {name: part | {"rate": 2 * part["rate"]} for name, part in ACTIVITY.items()}
    assert total(dynamic(engine, WHOLE, busy, 0.9)).high > base.high
    still = dynamic(engine, WHOLE, {name: part | {"rate": 0.0} for name, part in ACTIVITY.items()}, 0.0)
    assert [name for name, watts in still.items() if watts != Range(0.0, 0.0)] == ["clock"]


def test_the_ramp_rises():
    kernel = {"channel": {"ff": 15_000, "bram": 12, "uram": 8, "dsp": 60}, "rest": WHOLE}
    rows = ramp(kernel, ACTIVITY, 0.9, ("u50c16", "u50c28", "u50c"))
    sums = [total(row).high for row in rows.values()]
    assert sums == sorted(sums) and len(set(sums)) == 3


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
