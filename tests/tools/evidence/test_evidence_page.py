"""tools.evidence.page: the page says what the results say, and their verdicts are those of their
figures."""

import copy

import pytest

from symlight.tools.evidence.boundaries import Port
from symlight.tools.evidence.page import SECTIONS, contradictions, page, read_results
from symlight.tools.evidence.utilisation import SLR, Resources, split
from tests.benches.places import EVIDENCE

pytestmark = pytest.mark.timeout(60)
ABOUT = {"card": "u50c", "build": "partial-kv", "commit": "0" * 40}
CHANNEL, REST = Resources(lut=9000, ff=9000, bram=10, uram=4, dsp=40), Resources(lut=50000, dsp=600)


def unit(deepest: int, limit: int, aim: int) -> dict:
    return {
        "deepest": deepest,
        "paths": [{"levels": deepest, "from": "here", "to": "there"}],
        "over_limit": int(deepest > limit),
        "over_aim": int(deepest > aim),
        "memories": 2,
        "memories_with_output_register": 1,
        "multipliers": 0,
        "multipliers_with_registers": 0,
        "resources": CHANNEL.to_json(),
    }


def port(name: str, levels: int) -> dict:
    made = Port(name, "output", "axi", levels, "there", False, 0)
    return made.__dict__ | {"good": made.good}


@pytest.fixture
def results() -> dict:
    whole = CHANNEL * 32 + REST
    kernel = {"channels": 32, "channel": CHANNEL, "rest": REST, "whole": whole, "available_per_slr": SLR}
    kernel = {name: part.to_json() if isinstance(part, Resources) else part for name, part in kernel.items()}
    return {
        "synthesis": ABOUT
        | {
            "tool": {"options": "-family xcup"},
            "limit": 8,
            "aim": 6,
            "units": {"deep": unit(9, 8, 6), "flat": unit(3, 8, 6)},
            "channel_ports": [port("early", 0), port("late", 1)],
            "kernel": kernel | {"split": split(CHANNEL, 32, REST)},
        },
        "place": ABOUT
        | {"seed": 1, "modules": [{"module": "m", "lanes": 4, "of": 8, "fmax_mhz": 98.7, "cells": {}}]},
        "lint": ABOUT
        | {
            tool: {"version": "1.2", "waived": {"WIDTH": "because"}, "findings": []}
            for tool in ("verilator", "slang")
        },
    }


def test_the_page_follows_the_results(results):
    text = page(results)
    for part in (
        "aimed at* - 175 MHz",
        "| deep | 9 | 1 | 1 | here | there |",
        "1 of 2 ports that cross dies",
        "| late | output | axi | 1 | 0 | there |",
        "(hw/floorplan.py), and fits",
        "| m | 4 of 8 | 98.7 |",
        "slang 1.2: clean",
    ):
        assert part in text, part
    results["synthesis"]["units"]["deep"] = unit(4, 8, 6)
    results["synthesis"]["kernel"]["split"] = split(CHANNEL * 4, 32, REST)
    results["lint"]["slang"]["findings"] = ["a.v:1: error: no"]
    text = page(results)
    assert "| deep | 4 | 0 | 0 |" in text and "and does not fit" in text
    assert "slang 1.2: 1 findings" in text


def test_a_full_die_is_called_full(results):
    kernel = results["synthesis"]["kernel"]
    kernel["split"]["slr0_share"]["lut"] = 0.97
    assert "filled to 97% of a kind" in page(results)
    half = dict.fromkeys(kernel["split"]["slr0_share"], 0.5)
    kernel["split"] |= {"slr0_share": half, "slr1_share": half}
    assert "router" not in page(results)
    assert "## Lint" not in page({"place": results["place"]})


CHANGES = {
    "a deep unit without a path over the limit": (
        lambda s: s["units"]["deep"].update(over_limit=0),
        "unit deep: deepest 9, limit 8",
    ),
    "a flat unit with one over the aim": (
        lambda s: s["units"]["flat"].update(over_aim=3),
        "unit flat: deepest 3, aim 6",
    ),
    "a looser limit than was counted with": (lambda s: s.update(limit=12), "limit 12"),
    "a late port called good": (lambda s: s["channel_ports"][1].update(good=True), "port late: good is True"),
    "a kernel that is called too large": (lambda s: s["kernel"]["split"].update(fits=False), "the split"),
    "a larger channel under the old split": (lambda s: s["kernel"]["channel"].update(dsp=90), "the split"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_verdict_that_the_figures_deny_is_seen(results, what):
    assert contradictions(results) == []
    change, sentence = CHANGES[what]
    damaged = copy.deepcopy(results)
    change(damaged["synthesis"])
    (found,) = contradictions(damaged)
    assert sentence in found


def test_the_committed_evidence():
    """Page and verdicts of docs/evidence."""
    results = read_results(EVIDENCE)
    if missing := SECTIONS.keys() - results.keys():
        pytest.skip(f"docs/evidence has no {', '.join(sorted(missing))}.json; `make evidence` writes it")
    assert (EVIDENCE / "README.md").read_text() == page(results), "run `make evidence`"
    assert contradictions(results) == []
