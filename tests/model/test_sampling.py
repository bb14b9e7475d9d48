"""The integer sampler against exact rational definitions, against real numbers, and as a source of chance."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model import ops, sampling
from symlight.model.package import load_package
from symlight.model.sampling import CANDIDATES, SamplerSettings, SamplingOptions
from symlight.model.training.sampling_report import (
    integer_probabilities,
    lost_mass,
    real_logits,
    total_variation,
)
from tests.benches.places import ROOT

DEMO = ROOT / "model" / "packages" / "demo"
SCALE = 2.0**-20  # of made logits
LOGIT = 2**47 - 1

logit_lists = st.lists(st.integers(-LOGIT, LOGIT) | st.sampled_from([-LOGIT, -1, 0, 1, LOGIT]), min_size=1)
options = st.builds(
    SamplingOptions,
    temperature=st.floats(1e-6, 1000),
    top_k=st.integers(0, CANDIDATES),
    top_p=st.floats(1e-6, 1),
    min_p=st.floats(0, 1),
    seed=st.integers(0, 2**64 - 1),
)


# ---- naive definitions: Python integers, one candidate at a time ----------------------------------------


def naive_weight(distance, settings):
    coarse = max(settings.shift - 26, 0)
    fine = settings.shift - coarse
    product = min(distance >> coarse, 2**26 - 1) * settings.multiplier
    y = min((product + (1 << (fine - 1))) >> fine, 2**17 - 1)
    return (int(sampling.exp_table()[y % 1024]) << 7) >> min(y // 1024, 63)


def naive_choose(logits, settings, position):
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:CANDIDATES]
    w = [naive_weight(logits[order[0]] - logits[i], settings) for i in order][: settings.top_k]
    w = [w[0]] + [x for x in w[1:] if x >= settings.min_weight]
    total, n = sum(w), 1
    while sum(w[:n]) << 16 < settings.top_p * total:
        n += 1
    w = w[:n]
    target, index = sum(w) * sampling.random_word(settings.seed, position) >> 32, 0
    while sum(w[: index + 1]) <= target:
        index += 1
    return order[index]


@given(logit_lists, options, st.integers(0, 2**20), st.sampled_from([2.0**-40, SCALE, 1e-9, 0.9]))
def test_choose_equals_the_naive_definition(logits, options, position, scale):
    settings = SamplerSettings.of(options, scale)
    token = sampling.choose(np.array(logits), settings, position)
    assert token == naive_choose(logits, settings, position)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=200), st.integers(1, CANDIDATES))
def test_candidates_are_in_order_and_ties_go_to_the_lowest_id(logits, count):
    ids, values = sampling.candidates(np.array(logits), count)
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:count]
    assert ids.tolist() == order and values.tolist() == [logits[i] for i in order]


@given(logit_lists)
def test_the_first_candidate_is_the_argmax_and_top_k_1_always_draws_it(logits):
    logits = np.array(logits)
    greedy = ops.argmax(logits)
    assert sampling.candidates(logits)[0][0] == greedy == sampling.choose(logits, None, 5)
    settings = SamplerSettings.of(SamplingOptions(temperature=1000, top_k=1, seed=3), SCALE)
    assert all(sampling.choose(logits, settings, position) == greedy for position in range(20))


@given(st.floats(2.0**-48, 0.999), st.floats(1e-6, 1000))
def test_scaling_is_near_the_real_rate(scale, temperature):
    multiplier, shift = sampling.scaling(scale, temperature)
    assert 0 <= multiplier < 2**17 and 1 <= shift <= 63
    rate = scale / temperature * math.log2(math.e) * 1024
    if 2.0**-47 <= rate < 2.0**15:
        assert 2**16 <= multiplier and abs(multiplier / 2**shift / rate - 1) < 2.0**-16
    elif rate >= 2.0**15:  # a distance of 1 already has weight 0
        assert sampling.weights([1], multiplier, shift)[0] == 0


@given(st.integers(2**16, 2**17 - 1), st.integers(1, 63), st.lists(st.integers(0, 2**49 - 1), min_size=1))
def test_weights_are_near_powers_of_two_and_fall_with_distance(multiplier, shift, distances):
    distances = sorted([0, *distances])
    w = sampling.weights(distances, multiplier, shift)
    assert w[0] == 1 << 24 and (np.diff(w) <= 0).all()
    for distance, weight in zip(distances, w, strict=True):
        octaves = Fraction(distance * multiplier, 1 << shift) / 1024
        if octaves < 24:
            # half a step of the exponent, the distance's truncation, and one unit
            real = 2.0 ** (24 - float(octaves))
            assert abs(int(weight) - real) <= real * 4.1e-4 + 1
        else:
            assert weight <= 1


def test_the_exponential_table_is_rounded_correctly():
    table = sampling.exp_table()
    size = len(table)
    for index, entry in enumerate(table.tolist()):
        # (2 entry - 1)^1024 <= 2^(18 * 1024 - index) < (2 entry + 1)^1024
        exact = 1 << (18 * size - index)
        assert (2 * entry - 1) ** size <= exact < (2 * entry + 1) ** size


# ---- truncation -------------------------------------------------------------------------------------------

HALVES = np.array([1 << (24 - i) for i in range(8)])  # 1, 1/2, 1/4 ...


@pytest.mark.parametrize(
    "given_options, left",
    [
        ({}, 8),
        ({"top_k": 3}, 3),
        ({"min_p": 0.25}, 3),
        ({"min_p": 0.2500001}, 2),
        ({"min_p": 1.0}, 1),
        ({"top_p": 0.5}, 1),  # 1 of 1.99: just above a half
        ({"top_p": 0.51}, 2),
        ({"top_p": 1e-9}, 1),
        # of what top_k leaves: 1 + 1/2 of 1.75 is 0.857
        ({"top_k": 3, "top_p": 0.85}, 2),
        ({"top_k": 3, "top_p": 0.86}, 3),
        # of what min_p leaves: 1 of 1.5 is 0.667
        ({"min_p": 0.5, "top_p": 0.66}, 1),
        ({"min_p": 0.5, "top_p": 0.67}, 2),
    ],
)
def test_truncation_in_the_stated_order(given_options, left):
    settings = SamplerSettings.of(SamplingOptions(temperature=1, **given_options), SCALE)
    assert sampling.kept(HALVES, settings) == left


@pytest.mark.parametrize(
    "values, words",
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": CANDIDATES + 1}, "top_k is 65; at most 64"),
        ({"top_k": 2.0}, "top_k is 2.0; a whole number"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"min_p": 1.5}, "min_p is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "2^64 - 1"),
    ],
)
def test_bad_options_are_refused_by_name_and_value(values, words):
    with pytest.raises(UserError, match=words.replace("^", r"\^")):
        SamplingOptions(**values)


def test_a_temperature_needs_a_logit_scale():
    with pytest.raises(UserError, match="logit_scale"):
        SamplerSettings.of(SamplingOptions(temperature=1), None)


@given(options)
def test_options_survive_json(options):
    assert SamplingOptions.from_json(options.to_json()) == options


# ---- against real numbers ---------------------------------------------------------------------------------


def test_error_against_real_numbers_on_real_logits():
    """The bound that docs/arithmetic.md states, on three prompts of the demo model."""
    package = load_package(DEMO)
    scale = package.meta.logit_scale
    logits = real_logits(package, prompts=("In the beginning", "The wise man", "Peter and John"), count=24)
    for temperature in (0.3, 0.8, 1.5):
        variations = [total_variation(row, scale, SamplingOptions(temperature=temperature)) for row in logits]
        assert max(variations) < 2e-4
    # the same measure tells a temperature that is off by 1 % from the right one
    _, values = sampling.candidates(logits[5])
    one, other = (
        integer_probabilities(values, SamplerSettings.of(SamplingOptions(temperature=0.8), s))
        for s in (scale, scale * 1.01)
    )
    assert np.abs(one - other).sum() / 2 > 2e-4
    assert 0 < lost_mass(logits[5], scale, 0.8, 64) < lost_mass(logits[5], scale, 0.8, 32) < 1


# ---- the generator ----------------------------------------------------------------------------------------

# Known answers of Threefry-2x32, 20 rounds, out of Random123's test vectors: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("counter, key, result", KNOWN)
def test_threefry_known_answers(counter, key, result):
    assert sampling.threefry(key[0] | key[1] << 32, counter) == result


def chi_square_limit(degrees, deviations=5.0):
    """A value that a chi-square variable passes about once in 3 million (Wilson and Hilferty)."""
    spread = 2 / (9 * degrees)
    return degrees * (1 - spread + deviations * math.sqrt(spread)) ** 3


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


def words(seeds, positions):
    return np.array([[sampling.random_word(seed, p) for p in positions] for seed in seeds], np.uint64)


def uniformity(words_of):
    """The largest share of its limit that any chi-square of the generator's words reaches."""
    w = words_of(range(24), range(512))
    flat, shares = w.ravel(), []
    for shift in (0, 8, 16, 24):  # every byte
        counts = np.bincount((flat >> np.uint64(shift)) & np.uint64(255), minlength=256)
        shares.append(chi_square(counts, len(flat) / 256) / chi_square_limit(255))
    top = w >> np.uint64(28)
    # neighbours in position, neighbours in seed
    for first, second in ((top[:, :-1], top[:, 1:]), (top[:-1], top[1:])):
        pairs = np.bincount((first * np.uint64(16) + second).ravel(), minlength=256)
        shares.append(chi_square(pairs, pairs.sum() / 256) / chi_square_limit(255))
    ones = np.array([np.count_nonzero(flat >> np.uint64(bit) & np.uint64(1)) for bit in range(32)])
    bits = ((ones - len(flat) / 2) ** 2 / (len(flat) / 4)).max()
    repeats = 0.9 * w.size / len(np.unique(w))
    return max(*shares, bits / 36, repeats)  # six standard deviations


def test_the_generator_is_uniform_over_positions_and_seeds():
    assert uniformity(words) < 1


@pytest.mark.parametrize(
    "broken",
    [
        lambda seed, p: (seed * 2654435761 + p * 40503) & 0xFFFFFFFF,
        lambda seed, p: sampling.threefry(seed, (p, 0))[0] | 1 << 7,
        lambda seed, p: sampling.threefry(0, (seed + p, 0))[0],  # seeds repeat one another, a position later
    ],
)
def test_the_uniformity_test_can_fail(broken):
    def repeated(seeds, positions):
        return np.array([[broken(seed, p) for p in positions] for seed in seeds], np.uint64)

    assert uniformity(repeated) >= 1


def test_every_bit_of_seed_and_position_matters():
    base = sampling.random_word(0x0123456789ABCDEF, 12345)
    seeds = [sampling.random_word(0x0123456789ABCDEF ^ 1 << bit, 12345) for bit in range(64)]
    positions = [sampling.random_word(0x0123456789ABCDEF, 12345 ^ 1 << bit) for bit in range(20)]
    flips = [bin(base ^ other).count("1") for other in seeds + positions]
    assert min(flips) > 3 and abs(np.mean(flips) - 16) < 1.5


def test_draws_follow_the_weights():
    """Chi-square of drawn tokens against the exact integer probabilities, over positions and over seeds."""
    logits = np.array([5, 4, 4, 3, 1, 0, -2, -3]) * 2**18
    settings = SamplerSettings.of(SamplingOptions(temperature=0.8, top_p=0.97), SCALE)
    probabilities = integer_probabilities(np.sort(logits)[::-1], settings)
    left = np.count_nonzero(probabilities)
    assert 3 < left < len(logits)
    by_position = [sampling.choose(logits, settings, position) for position in range(3000)]
    by_seed = [
        sampling.choose(
            logits,
            SamplerSettings.of(SamplingOptions(temperature=0.8, top_p=0.97, seed=seed), SCALE),
            7,
        )
        for seed in range(3000)
    ]
    for drawn in (by_position, by_seed):
        counts = np.bincount(drawn, minlength=len(logits))
        assert counts[left:].sum() == 0  # what top_p removed
        expected = probabilities[:left] * len(drawn)
        assert chi_square(counts[:left], expected) < chi_square_limit(left - 1)
        wrong = np.roll(expected, 1)
        assert chi_square(counts[:left], wrong) > chi_square_limit(left - 1)
