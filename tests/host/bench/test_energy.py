"""Energy out of power readings: answers that are known, properties, and wrong ways of counting that the same
checks refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.host.bench.energy import (
    MAX_GAP,
    NotCovered,
    decode_rate,
    energy,
    mean_power,
    new_readings,
    request_rate,
    split,
    spread,
)

pytestmark = pytest.mark.timeout(60)
FREE = {"max_gap": float("inf"), "min_samples": 0}

# ---- the paper's own numbers ----


def test_equation_8_gives_the_papers_equation_11():
    """Section 5.2: 643.03 tokens/s, 28.534 W active, 23.623 W loaded idle."""
    parts = split(28.534, 23.623, 643.03)
    assert [round(value, 5) for value in (parts.gross, parts.idle_share, parts.incremental)] == [
        0.04437,
        0.03674,
        0.00764,
    ]
    assert round(100 * parts.idle_share / parts.gross, 1) == 82.8


def test_equations_9_and_10_give_the_papers_rates():
    """p32/n128: 643.2 tokens/s of decoding and 518.4 of requests leave 48 ms to the prefill, which is 32
    passes of 1.5 ms."""
    decode = 128 / 643.2
    assert decode_rate(128, decode) == pytest.approx(643.2)
    prefill = 128 / 518.4 - decode
    assert request_rate(128, prefill, decode) == pytest.approx(518.4)
    assert prefill == pytest.approx(32 * 1.497e-3, rel=2e-3)


def test_spread_is_of_the_extremes_over_the_median():
    assert spread([10.0, 12.0, 9.0]) == 0.3
    assert spread([4.0]) == 0


@given(st.floats(1, 100), st.floats(1, 100), st.floats(1, 5000))
def test_the_parts_add_up(active, idle, rate):
    parts = split(active, idle, rate)
    assert parts.idle_share + parts.incremental == pytest.approx(parts.gross, rel=1e-12, abs=1e-12)


# ---- known answers ----


def constant(integrate):
    times = [0.1, 1.0, 2.2, 2.9, 4.0, 5.1, 6.3]
    assert integrate(times, [20.0] * 7, 0.5, 5.5) == pytest.approx(100)


def ramp(integrate):
    """P = 10 + 3 t, window edges between samples, samples at no regular times."""
    times = np.array([0.0, 0.7, 2.0, 2.5, 3.9, 5.0, 6.4, 7.0])
    assert integrate(times, 10 + 3 * times, 0.35, 6.6) == pytest.approx(10 * 6.25 + 1.5 * (6.6**2 - 0.35**2))


def ends_on_samples(integrate):
    assert integrate([0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6, 4, 2, 0], 0, 6) == pytest.approx(18)


def peak(integrate):
    """What is outside the window does not count, though its samples are close."""
    assert integrate([0, 1, 1.5, 2, 3, 4, 5, 6], [900, 10, 10, 10, 10, 10, 10, 900], 1, 5) == pytest.approx(
        40
    )


def uneven(integrate):
    """A long and a short stretch: samples have no weight of their own."""
    times = [0, 1, 2, 2.2, 2.4, 2.6, 2.8, 3.0, 5]
    watts = [10, 10, 10, 50, 50, 50, 50, 50, 50]
    assert integrate(times, watts, 0.0, 5.0) == pytest.approx(20 + 6 + 0.8 * 50 + 2 * 50)


KNOWN = [constant, ramp, ends_on_samples, peak, uneven]


@pytest.mark.parametrize("answer", KNOWN, ids=lambda f: f.__name__)
def test_known_answers(answer):
    answer(lambda *series: energy(*series, min_samples=3))


def mean_times_duration(times, watts, begin, end):
    inside = [w for t, w in zip(times, watts, strict=True) if begin <= t <= end]
    return float(np.mean(inside)) * (end - begin)


def without_ends(times, watts, begin, end):
    t, p = np.array(times), np.array(watts)
    inside = (t >= begin) & (t <= end)
    return float(np.sum(np.diff(t[inside]) * (p[inside][1:] + p[inside][:-1]) / 2))


def whole_samples(times, watts, begin, end):
    """From the last sample before the window to the first after it."""
    t, p = np.array(times), np.array(watts)
    a, b = np.searchsorted(t, begin, "right") - 1, np.searchsorted(t, end, "left") + 1
    return float(np.sum(np.diff(t[a:b]) * (p[a:b][1:] + p[a:b][:-1]) / 2))


def held(times, watts, begin, end):
    """Each sample until the next."""
    t, p = np.array(times), np.array(watts)
    grid = np.concatenate(([begin], t[(t > begin) & (t < end)], [end]))
    return float(np.sum(np.diff(grid) * p[np.searchsorted(t, grid[:-1], "right") - 1]))


@pytest.mark.parametrize(
    "wrong", [mean_times_duration, without_ends, whole_samples, held], ids=lambda f: f.__name__
)
def test_wrong_integrals_fail_the_known_answers(wrong):
    failed = []
    for answer in KNOWN:
        try:
            answer(wrong)
        except AssertionError:
            failed.append(answer)
    assert failed


@pytest.mark.parametrize("least", [0, 1, 2, 5])
def test_exactly_the_least_number_of_readings_is_enough(least):
    """Readings strictly inside the window count, those on its ends do not."""
    times = [float(time) for time in range(least + 2)]
    watts = [10.0] * len(times)
    limits = {"max_gap": float("inf"), "min_samples": least}
    assert energy(times, watts, 0.0, times[-1], **limits) == pytest.approx(10 * times[-1])
    with pytest.raises(NotCovered, match=f"{least} sensor readings"):
        energy(times, watts, 0.0, times[-1], **limits | {"min_samples": least + 1})


# ---- properties ----


@st.composite
def series(draw, least=2):
    gaps = draw(st.lists(st.floats(0.01, 3), min_size=least, max_size=30))
    times = np.cumsum([0.0, *gaps])
    watts = draw(st.lists(st.floats(0, 300), min_size=len(times), max_size=len(times)))
    return times, np.array(watts)


def inside(draw_from, times, count):
    return sorted(draw_from.draw(st.floats(0, 1)) * times[-1] for _ in range(count))


@given(st.data(), series())
def test_windows_add_up(data, readings):
    times, watts = readings
    a, b, c = inside(data, times, 3)
    if a < b < c:
        whole = energy(times, watts, a, c, **FREE)
        assert energy(times, watts, a, b, **FREE) + energy(times, watts, b, c, **FREE) == pytest.approx(
            whole, rel=1e-9, abs=1e-9
        )


@given(st.data(), series())
def test_the_mean_lies_between_the_extremes(data, readings):
    times, watts = readings
    a, b = inside(data, times, 2)
    if b - a > 1e-6:
        assert watts.min() - 1e-6 <= mean_power(times, watts, a, b, **FREE) <= watts.max() + 1e-6


@given(st.data(), series(), st.floats(-20, 20), st.floats(0, 100))
def test_a_ramp_is_exact_at_any_times(data, readings, slope, offset):
    """Jitter of the sampling does not matter where power is linear."""
    times, _ = readings
    a, b = inside(data, times, 2)
    if b - a > 1e-3:
        found = mean_power(times, offset + slope * times, a, b, **FREE)
        assert found == pytest.approx(offset + slope * (a + b) / 2, abs=1e-6 + 1e-9 * abs(slope) * times[-1])


@given(st.data(), series())
def test_a_sample_on_the_line_changes_nothing(data, readings):
    """Missing samples do not matter where power is linear."""
    times, watts = readings
    a, b = inside(data, times, 2)
    extra = data.draw(st.floats(0, 1)) * times[-1]
    if b > a and extra not in times:
        more = np.insert(times, np.searchsorted(times, extra), extra)
        power = np.interp(more, times, watts)
        assert energy(more, power, a, b, **FREE) == pytest.approx(
            energy(times, watts, a, b, **FREE), rel=1e-9, abs=1e-6
        )


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.integers(10, 90), st.floats(0.1, 40))
def test_a_step_costs_at_most_a_refresh(phase, rest, seconds, step):
    """The truth: idle, then `step` watts more between 0 and the end, measured once a second at any phase.
    What the ramps at both ends miss is never more than the step over one refresh, and never negative."""
    end = seconds + rest
    times = np.arange(-4, seconds + 6) + phase
    watts = 20 + step * ((times >= 0) & (times <= end))
    missed = (20 + step) * end - energy(times, watts, 0.0, end)
    assert -1e-6 <= missed <= step * 1.0 + 1e-6


# ---- samples ----


@given(st.data(), st.floats(0.05, 0.4), st.floats(0, 0.9))
def test_repeated_answers_do_not_count(data, period, phase):
    """A sensor that refreshes once a second with jitter, read more often: exactly its refreshes remain."""
    refreshes = np.arange(30) + np.array(data.draw(st.lists(st.floats(-0.2, 0.2), min_size=30, max_size=30)))
    values = data.draw(st.lists(st.integers(0, 10**6), min_size=30, max_size=30, unique=True))
    polls = np.arange(refreshes[0] + phase * period, refreshes[-1], period)
    seen = [values[np.searchsorted(refreshes, t, "right") - 1] for t in polls]
    kept = new_readings(polls, seen)
    assert [seen[i] for i in kept] == list(dict.fromkeys(seen))
    assert all(0 <= polls[i] - refreshes[values.index(seen[i])] <= period + 1e-9 for i in kept)


def test_an_answer_that_stays_is_measured_again():
    """Constant power: a card that answers the same for a minute is alive, and its samples go on."""
    times = np.arange(0, 60, 0.25)
    kept = new_readings(times, ["same"] * len(times))
    gaps = np.diff(times[kept])
    assert gaps.max() < 2 and gaps.min() >= 1.5
    assert energy(times[kept], [25.0] * len(kept), 1.0, 55.0) == pytest.approx(25 * 54)


def test_counting_every_answer_would_be_wrong():
    """The same series with its repeats: the trapezoids turn into steps, and the check notices."""

    def truth(t):
        return 20 + 4 * t

    polls = np.arange(0, 12, 0.25)
    watts = truth(np.floor(polls))
    kept = new_readings(polls, watts)
    expected = 20 * 8 + 2 * (10**2 - 2**2)
    assert energy(polls[kept], watts[kept], 2.0, 10.0) == pytest.approx(expected)
    assert abs(energy(polls, watts, 2.0, 10.0) - expected) > 5


# ---- what cannot be said ----


def test_windows_that_the_samples_do_not_cover_are_refused():
    times, watts = np.arange(20.0), np.full(20, 30.0)
    assert energy(times, watts, 0, 19) == pytest.approx(570)
    for begin, end in ((-0.1, 10), (5, 19.1), (-5, 40)):
        with pytest.raises(NotCovered, match="both sides"):
            energy(times, watts, begin, end)
    with pytest.raises(NotCovered, match="both sides"):
        energy([], [], 0, 1)
    with pytest.raises(NotCovered, match="3 sensor readings in 3.0 s are too few"):
        energy(times, watts, 4.5, 7.5)


def test_a_gap_is_refused_wherever_it_lies():
    times = np.delete(np.arange(40.0), slice(10, 10 + int(MAX_GAP)))
    watts = np.full(len(times), 30.0)
    for begin, end in ((0, 30), (12, 30), (0, 12)):
        with pytest.raises(NotCovered, match="nothing new for 6.0 s"):
            energy(times, watts, begin, end)
    assert energy(times, watts, 16, 30) == pytest.approx(14 * 30)


@pytest.mark.parametrize(
    "times, begin, end",
    [([0, 2, 1, 3], 0, 3), ([0, 1, 1, 3], 0, 3), ([0, 1, 2, 3], 2, 2), ([0, 1, 2, 3], 3, 1)],
)
def test_what_is_no_series_or_no_window_is_an_error(times, begin, end):
    with pytest.raises(ValueError, match="in order of time"):
        energy(times, [1.0] * 4, begin, end)
