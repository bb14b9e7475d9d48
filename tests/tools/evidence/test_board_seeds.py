"""tools.evidence.board: the margin over several seeds."""

from symlight.tools.evidence.board import margins


def result(kernel: float, sdram: float) -> dict:
    return {
        "clocks": {
            "kernel": {"mhz": kernel, "wanted_mhz": 50.0},
            "sdram": {"mhz": sdram, "wanted_mhz": 75.0},
        }
    }


def test_the_least_margin_of_every_clock():
    seeds = {"1": result(55, 90), "2": result(52, 99), "3": result(60, 74.25)}
    assert margins(seeds) == {"kernel": 0.04, "sdram": -0.01}
