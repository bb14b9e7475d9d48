"""The plan of a soak: its limits, and that it comes again."""

from hypothesis import given
from hypothesis import strategies as st

from symlight.host.soak.plan import MOST_TOKENS, MOST_TURNS, Before, conversation


@given(st.integers(-(2**70), 2**70), st.integers(0, 2**40), st.integers(1, 65536))
def test_a_plan_keeps_its_limits_and_comes_again(seed, number, vocab):
    turns = list(conversation(seed, number, vocab))
    assert turns == list(conversation(seed, number, vocab))
    assert 1 <= len(turns) <= MOST_TURNS
    assert turns[0].prompt and turns[0].before is Before.NOTHING
    for turn in turns:
        assert 0 <= len(turn.prompt) + turn.n_new <= MOST_TOKENS
        assert all(0 <= token < vocab for token in turn.prompt)


def test_a_plan_has_every_kind_of_turn():
    turns = [turn for number in range(60) for turn in conversation(1, number, 50)]
    assert {turn.before for turn in turns} == set(Before)
    assert {turn.single for turn in turns} == {True, False}
    sizes = {len(turn.prompt) + turn.n_new for turn in turns}
    assert sizes == set(range(MOST_TOKENS + 1))
    assert any(turn.eos is None for turn in turns) and any(turn.eos is not None for turn in turns)
    assert list(conversation(1, 0, 50)) != list(conversation(2, 0, 50))
    assert sum(turn.before is Before.NOTHING for turn in turns) < 0.85 * len(turns)
