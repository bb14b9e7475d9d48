"""The floorplan names parts that the generated Verilog has, and its wires fit between the dies."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from symlight.bitstreams.floorplan import SLL_WIRES, floorplan_tcl, sll_wires
from symlight.bitstreams.platform import AlveoU50CPlatform
from symlight.hw.config import CARDS, Engine
from symlight.hw.floorplan import channels_of_die
from tests.benches.bitstreams.vendor_tools import run_tcl


def assigned(package: Path) -> dict[str, str]:
    """Part -> die of a package's floorplan, as Vivado would see it."""
    calls = run_tcl(package / "floorplan.tcl")
    found = {}
    for call in calls:
        if call[:2] == ["set_property", "USER_SLR_ASSIGNMENT"]:
            name = re.search(r"\*/kernel/(\w+)\b", call[3])
            assert name, call
            found[name[1]] = call[2]
    return found


def instances(text: str) -> set[str]:
    """Instances in module `kernel` of a generated kernel."""
    (module,) = re.findall(r"^module \\symlight\.kernel \(.*?^endmodule", text, re.M | re.S)
    return set(re.findall(r"^  (?:\\\S+ |\w+) +\\?(\w+) +\($", module, re.M))


def test_every_part_exists_and_every_channel_has_a_die(package_folder):
    found = assigned(package_folder)
    engine = Engine.from_json(json.loads((package_folder / "manifest.json").read_text())["engine"])
    missing = set(found) - instances((package_folder / "symlight.v").read_text())
    assert not missing, f"the kernel has no {missing}"
    dies = channels_of_die(engine.channels)
    for die, numbers in zip(AlveoU50CPlatform.slrs, dies, strict=True):
        assert all(found[f"channel{k:02d}"] == die for k in numbers)
    assert sorted([*dies[0], *dies[1]]) == list(range(engine.channels))


def test_crossing_registers_exist(package_folder):
    text = (package_folder / "symlight.v").read_text()
    marked = re.findall(r"\*/kernel/(?:reduce/)?(\w+)\*", floorplan_tcl(CARDS["u50c"]))
    assert marked == ["crossed", "status"]
    assert all(re.search(rf"^  reg .*\b{name}\d", text, re.M) for name in marked)


@pytest.mark.parametrize("card", ["u50c", "u50c28", "u50c16"])
def test_wires_between_the_dies(card):
    assert sum(sll_wires(CARDS[card]).values()) < SLL_WIRES


def test_too_many_wires_are_seen():
    wide = replace(CARDS["u50c"], lanes=64)
    assert sum(sll_wires(wide).values()) > SLL_WIRES
