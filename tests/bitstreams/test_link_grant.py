"""What the link file grants is enough for what the kernel needs."""

import json

import pytest

from symlight.bitstreams.link import INSTANCE, link_cfg
from symlight.bitstreams.platform import AlveoU50CPlatform
from symlight.hw.config import CARDS
from symlight.tools.evidence.utilisation import SLR, Resources
from tests.benches.places import EVIDENCE

SYNTHESIS = EVIDENCE / "synthesis.json"


def granted(text: str) -> Resources:
    """Resources of the dies on which a link file lets the kernel lie."""
    lines = [line for line in text.splitlines() if line.startswith(f"slr={INSTANCE}:")]
    dies = {line.rpartition(":")[2] for line in lines} or set(AlveoU50CPlatform.slrs)
    assert dies <= set(AlveoU50CPlatform.slrs)
    return SLR * len(dies)


def needed() -> Resources:
    """Resources of the full-size kernel, from the evidence."""
    return Resources(**json.loads(SYNTHESIS.read_text())["kernel"]["whole"])


def test_the_kernel_fits_what_it_is_granted():
    assert needed().share(granted(link_cfg(CARDS["u50c"]))).most < 1


def test_one_die_is_seen_to_be_too_small():
    pinned = link_cfg(CARDS["u50c"]) + f"slr={INSTANCE}:SLR0\n"
    assert granted(pinned) == SLR and needed().share(granted(pinned)).most > 1


@pytest.mark.parametrize("card", ["u50c16", "u50c28"])
def test_smaller_cards_are_pinned_no_more(card):
    assert granted(link_cfg(CARDS[card])) == SLR * 2
