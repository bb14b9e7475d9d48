"""Penalties, bias and banned tokens against their definitions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.penalties import NO_PENALTIES, Penalties, choose_penalised, penalised
from symlight.model.sampling import SamplerSettings, SamplingOptions, choose

SCALE = 2.0**-10
logits = st.lists(st.integers(-(2**47), 2**47 - 1), min_size=4, max_size=30)


@given(logits, st.floats(0.5, 3), st.floats(-2, 2), st.floats(-2, 2), st.floats(-100, 100))
def test_each_change_is_what_it_says(values, repetition, presence, frequency, bias):
    penalties = Penalties(
        repetition=repetition, presence=presence, frequency=frequency, bias={2: bias, 3: 1.0}
    )
    changed = penalised(np.array(values), penalties, SCALE, prompt=[0, 1], generated=[1, 2, 2])
    for token, value in enumerate(values):
        expected = Fraction(value)
        if token in (0, 1, 2):
            expected = expected / Fraction(repetition) if value > 0 else expected * Fraction(repetition)
        count = [1, 2, 2].count(token)
        expected -= (Fraction(presence) * (count > 0) + Fraction(frequency) * count) / Fraction(SCALE)
        expected += Fraction({2: bias, 3: 1.0}.get(token, 0)) / Fraction(SCALE)
        expected = max(min(expected, 2**47 - 1), -(2**47))
        # 16 fraction bits of the repetition penalty, and a unit per rounding
        assert abs(int(changed[token]) - expected) <= abs(value) * Fraction(1, 2**14) + 4
        if token not in (0, 1, 2, 3):
            assert changed[token] == value


@given(logits)
def test_without_penalties_nothing_changes(values):
    assert penalised(np.array(values), NO_PENALTIES, None, [0, 1], [2]).tolist() == values
    assert choose_penalised(np.array(values), NO_PENALTIES, None, 3) == choose(np.array(values), None, 3)
    assert not NO_PENALTIES.active and Penalties(banned={1}).active


@given(logits, st.integers(0, 2**32))
def test_a_banned_token_is_never_chosen(values, seed):
    banned = {int(np.argmax(values)), 0}
    penalties = Penalties(banned=banned)
    hot = SamplerSettings.of(SamplingOptions(temperature=1000, seed=seed), SCALE)
    for settings in (None, hot):
        assert choose_penalised(np.array(values), penalties, settings, 9) not in banned


@pytest.mark.parametrize(
    "values, scale, words",
    [
        ({"bias": {9: 1.0}}, SCALE, "token 9 is outside"),
        ({"banned": {4}}, SCALE, "token 4 is outside"),
        ({"banned": {0, 1, 2, 3}}, SCALE, "every token is banned"),
        ({"presence": 0.5}, None, "logit_scale"),
    ],
)
def test_penalties_that_do_not_fit_the_model_are_refused(values, scale, words):
    with pytest.raises(UserError, match=words):
        Penalties(**values).check(4, scale)


@pytest.mark.parametrize("values", [{"repetition": 0.0}, {"presence": 1e9}, {"bias": {0: 1e9}}])
def test_penalties_out_of_range_are_refused(values):
    with pytest.raises(UserError, match="must be in"):
        Penalties(**values)
