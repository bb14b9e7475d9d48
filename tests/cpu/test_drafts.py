"""Drafts from the text so far."""

import pytest

from symlight.cpu import drafts as module
from symlight.cpu.drafts import MOST, PLACES, NgramDrafts


def drafts_of(*tokens: int) -> NgramDrafts:
    drafts = NgramDrafts()
    drafts.append(tokens)
    return drafts


@pytest.fixture
def eager(monkeypatch):
    """Drafts go on however unlikely they are."""
    monkeypatch.setattr(module, "LIKELY", 0.0)


def test_what_followed_last_time_is_proposed(eager):
    assert drafts_of(1, 2, 3, 4, 5, 9, 1, 2, 3).propose(4) == [4, 5, 9, 1]
    assert drafts_of(1, 2, 3, 4, 5, 9, 1, 2, 3).propose(2) == [4, 5]
    # a refrain goes on
    assert drafts_of(1, 2, 3, 1, 2, 3).propose(7) == [1, 2, 3, 1, 2, 3, 1]
    # the newest occurrence counts
    assert drafts_of(1, 2, 7, 0, 1, 2, 8, 0, 1, 2).propose(1) == [8]
    # but the longest match first
    assert drafts_of(5, 1, 2, 7, 0, 6, 1, 2, 8, 0, 5, 1, 2).propose(1) == [7]
    # of the places that are remembered
    assert drafts_of(1, 2, 7, *[1, 2, 8] * PLACES, 0, 1, 2).propose(1) == [8]


def test_a_draft_has_an_end(eager):
    assert len(drafts_of(1, 2, 1, 2).propose(99)) == MOST


@pytest.mark.parametrize("tokens", [(), (1,), (1, 2), (1, 2, 3, 4), (1, 2, 3, 1)])
def test_nothing_is_proposed_for_new_text(eager, tokens):
    assert drafts_of(*tokens).propose(10) == []


def test_nothing_is_proposed_when_nothing_is_wanted(eager):
    assert drafts_of(1, 2, 1, 2).propose(0) == []


def test_the_length_follows_success():
    refrain = list(range(30))
    lengths = [len(drafts_of(*refrain, *refrain[:agree]).propose(99)) for agree in (2, 6, 16, 30)]
    assert 0 < lengths[0] < lengths[1] < lengths[2] <= lengths[3] == MOST


def test_drafts_stop_when_they_fare_badly():
    """The same two tokens, and something else behind them every time."""
    drafts = NgramDrafts()
    lengths = []
    for number in range(20):
        drafts.append([1, 2])
        lengths.append(len(drafts.propose(99)))
        drafts.append([100 + number])
    assert lengths[:2] == [0, 1] and lengths[-1] == 0


def test_the_newest_token_can_be_replaced(eager):
    drafts = drafts_of(1, 2, 3, 4, 1, 9)
    assert drafts.propose(1) == []
    drafts.replace_newest(2)
    assert drafts.propose(1) == [3]
    drafts.replace_newest(9)  # and the pair that was there before is forgotten
    drafts.append([8, 1, 2])
    assert drafts.propose(1) == [3]
