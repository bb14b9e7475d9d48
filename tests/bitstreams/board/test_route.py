"""bitstreams.board.route and reports: nextpnr's words and figures, without nextpnr."""

import json

import pytest

from symlight.base.errors import UserError
from symlight.bitstreams.board.reports import fullest, read_report, timing_met
from symlight.bitstreams.board.route import Phases, arguments, require_timing

# Lines of nextpnr 0.11.1, in its order.
LINES = """\
Info: Logic utilisation before packing:
Info: Packing IOs..
Info: Packing constants..
Info: Packing carries...
Info: Creating initial analytic placement for 40000 cells, random placement wirelen = 9000000.
Info:     at initial placer iter 0, wirelen = 24609
Info:     at iteration #1, type ALL: wirelen solved = 19351, spread = 1836823, legal = 1928136; time = 26.97s
Info: Running simulated annealing placer for refinement.
Info:   at iteration #1: temp = 0.000000, timing cost = 9739, wirelen = 712442
Info: Routing globals...
Info: Routing..
Info: Running router2...
""".splitlines(keepends=True)


def report(**changes) -> dict:
    """A report as nextpnr writes it."""
    used = {"TRELLIS_COMB": 50, "TRELLIS_FF": 10, "DP16KD": 20, "MULT18X18D": 30, "TRELLIS_RAMW": 1}
    return {
        "fmax": {
            "$glbnet$board.controller.sdram_clk": {"achieved": 101.234, "constraint": 75.0},
            "$glbnet$board.beats.clk": {"achieved": 55.0, "constraint": 50.0},
        },
        "utilization": {name: {"used": count, "available": 100} for name, count in used.items()},
    } | changes


def read(folder, data) -> dict:
    (folder / "report.json").write_text(json.dumps(data))
    return read_report(folder / "report.json")


def test_phases_begin_and_end_in_order():
    told = []
    phases = Phases(lambda stage, done, total: told.append((stage, done, total)))
    for line in LINES:
        phases(line)
    phases.end()
    names = ["read the netlist", "pack", "place", "refine the placement", "route"]
    assert told == [step for name in names for step in ((name, 0, 0), (name, 1, 1))]


def test_a_report_is_read(tmp_path):
    found = read(tmp_path, report())
    assert {name: clock["mhz"] for name, clock in found["clocks"].items()} == {
        "sdram": 101.23,
        "kernel": 55.0,
    }
    assert timing_met(found)
    assert fullest(found) == ("lut4", 0.5)


def test_a_slow_clock_is_refused(tmp_path):
    slow = read(tmp_path, report(fmax={"$glbnet$clk": {"achieved": 49.99, "constraint": 50.0}}))
    with pytest.raises(UserError, match=r"seed 3 does not meet the clocks: kernel 49.99 of 50.0 MHz; try"):
        require_timing(slow, 3)


def test_a_report_of_something_else_is_refused(tmp_path):
    with pytest.raises(UserError, match="no report of nextpnr-ecp5"):
        read(tmp_path, {"fmax": {}})


def test_the_seed_is_given():
    options = arguments("design", 7)
    assert options[options.index("--seed") + 1] == "7"
