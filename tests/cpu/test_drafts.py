"""Drafts from the text so far."""

import pytest

from symlight.cpu.drafts import LONGEST, MOST, SHORTEST, START, NgramDrafts


def drafts_of(*tokens: int) -> NgramDrafts:
    drafts = NgramDrafts()
    drafts.append(tokens)
    return drafts


def test_what_followed_last_time_is_proposed():
    assert drafts_of(1, 2, 3, 4, 5, 9, 1, 2, 3).propose(10) == [4, 5, 9, 1]
    assert drafts_of(1, 2, 3, 4, 5, 9, 1, 2, 3).propose(2) == [4, 5]
    # a refrain goes on
    assert drafts_of(1, 2, 3, 1, 2, 3).propose(10) == [1, 2, 3, 1]
    # the newest occurrence counts
    assert drafts_of(1, 2, 7, 0, 1, 2, 8, 0, 1, 2).propose(1) == [8]
    # but the longest match first
    assert drafts_of(5, 1, 2, 7, 0, 6, 1, 2, 8, 0, 5, 1, 2).propose(1) == [7]


@pytest.mark.parametrize("tokens", [(), (1,), (1, 2), (1, 2, 3, 4), (1, 2, 3, 1)])
def test_nothing_is_proposed_for_new_text(tokens):
    assert drafts_of(*tokens).propose(10) == []


def test_nothing_is_proposed_when_nothing_is_wanted():
    assert drafts_of(1, 2, 1, 2).propose(0) == []


def test_the_length_follows_success():
    drafts = drafts_of(*range(50), *range(SHORTEST))
    assert len(drafts.propose(99)) == START
    drafts.judge(START, START)
    assert len(drafts.propose(99)) == 2 * START
    drafts.judge(2 * START, 2 * START)
    drafts.judge(MOST, MOST)
    assert len(drafts.propose(99)) == MOST
    drafts.judge(MOST, 2)
    assert len(drafts.propose(99)) == 3
    drafts.judge(3, 0)
    assert len(drafts.propose(99)) == 1
    assert (drafts.proposed, drafts.accepted) == (START * 3 + 2 * MOST + 3, START * 3 + MOST + 2)


def test_the_newest_token_can_be_replaced():
    drafts = drafts_of(1, 2, 3, 4, 1, 9)
    assert drafts.propose(1) == []
    drafts.replace_newest(2)
    assert drafts.propose(1) == [3] and LONGEST > SHORTEST
