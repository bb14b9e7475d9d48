"""What the link file grants is enough for what the kernel needs, die by die: the budget gate."""

import json
import re

import pytest

from symlight.bitstreams.link import INSTANCE, link_cfg
from symlight.bitstreams.platform import AlveoU50CPlatform
from symlight.hw.config import CARDS
from symlight.tools.evidence import budget
from symlight.tools.evidence.utilisation import BUDGET, Resources
from tests.benches.places import EVIDENCE

SYNTHESIS = EVIDENCE / "synthesis.json"
DIES = AlveoU50CPlatform.slrs
CARD_PRESETS = ("u50c16", "u50c28", "u50c")
# Where the committed synthesis is above the budget today, and by how much: it may not grow, and an entry
# that is not needed any more has to go.
SHORTFALL = {
    "u50c": {("SLR0", "lut"): 0.715, ("SLR1", "lut"): 0.705},
}


def parts() -> tuple[Resources, Resources]:
    """(a channel, everything else) of u50c, from the evidence.

    They are taken for the smaller presets too: a channel's LUTs and DSP slices are the same, the rest is
    smaller with fewer channels.
    """
    kernel = json.loads(SYNTHESIS.read_text())["kernel"]
    return Resources(**kernel["channel"]), Resources(**kernel["rest"])


def used(card: str, link: str | None = None, **factors: float) -> dict[str, Resources]:
    """Die -> what the kernel of a preset takes, as its link file, or `link`, lets it lie."""
    engine = CARDS[card]
    granted = budget.dies_granted(link or link_cfg(engine), INSTANCE, DIES)
    channel, rest = parts()
    return budget.taken(
        channel * factors.get("channel", 1), engine.channels, rest * factors.get("rest", 1), DIES, granted
    )


@pytest.mark.parametrize("card", CARD_PRESETS)
def test_no_die_is_over_its_budget(card):
    found = budget.excesses(used(card), SHORTFALL.get(card))
    assert found == [], "; ".join(map(str, found))


@pytest.mark.parametrize("card", CARD_PRESETS)
def test_no_shortfall_is_stated_that_is_none(card):
    over = {(one.die, one.kind) for one in budget.excesses(used(card))}
    gone = set(SHORTFALL.get(card, {})) - over
    assert not gone, f"{sorted(gone)} of {card} keep the budget: remove them from SHORTFALL"


def test_the_page_says_whether_the_budget_holds():
    verdict = "does not hold" if budget.excesses(used("u50c")) else "holds"
    page = " ".join((EVIDENCE / "README.md").read_text().split())
    assert re.search(rf"at most {BUDGET:.0%} of LUTs and DSP slices on either die, which {verdict}\.", page)


def test_the_interconnect_is_in_it():
    first, second = used("u50c").values()
    channel, rest = parts()
    assert first.lut > channel.lut * 16 and second.lut == channel.lut * 16 + rest.lut


BROKEN = {
    "pinned to one die": ({"link": link_cfg(CARDS["u50c"]) + f"slr={INSTANCE}:SLR0\n"}, "SLR0"),
    "pinned to the other die": ({"link": link_cfg(CARDS["u50c"]) + f"slr={INSTANCE}:SLR1\n"}, "SLR1"),
    "channels a tenth larger": ({"channel": 1.1}, "SLR0"),
    "a sequencer half as large again": ({"rest": 1.5}, "SLR1"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_die_that_is_over_is_seen(what):
    changes, die = BROKEN[what]
    found = budget.excesses(used("u50c", **changes), SHORTFALL["u50c"])
    assert die in {one.die for one in found}


def test_a_full_die_of_memories_is_seen():
    full = dict(zip(DIES, (Resources(uram=305), Resources(bram=565)), strict=True))
    assert [(one.die, one.kind) for one in budget.excesses(full)] == [("SLR0", "uram"), ("SLR1", "bram")]


def test_a_die_that_the_card_has_not_is_refused():
    with pytest.raises(ValueError, match="SLR2"):
        budget.dies_granted(f"slr={INSTANCE}:SLR2\n", INSTANCE, DIES)
    assert budget.dies_granted("slr=other_1:SLR0\n", INSTANCE, DIES) == DIES


@pytest.mark.parametrize("card", CARD_PRESETS)
def test_no_preset_is_pinned(card):
    assert budget.dies_granted(link_cfg(CARDS[card]), INSTANCE, DIES) == DIES
