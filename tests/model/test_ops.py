"""Every operation against big-integer or exact rational definitions, and against its real meaning."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.model import ops
from symlight.model.config import PRESETS, Numerics, preset
from symlight.model.weights import Norm
from tests.benches.model.naive_reference import divide, event, layer_norm, requantise, rnd, sat

ACC = 2**27 - 1  # bound of accumulators


def integers(bound):
    return st.integers(-bound, bound)


@given(integers(2**50), st.integers(1, 47))
def test_rnd_is_half_away_from_zero(x, s):
    assert ops.rnd(x, s) == rnd(x, s)
    assert ops.rnd(x, np.int64(s)) == ops.rnd(np.array([x]), np.array([s], np.uint8))[0] == rnd(x, s)


@given(st.integers(-(2**20), 2**20), st.integers(1, 40))
def test_rnd_ties_and_symmetry(x, s):
    tie = (2 * x + 1) << (s - 1)
    assert ops.rnd(tie, s) == (x + 1 if x >= 0 else x)
    assert ops.rnd(-tie, s) == -ops.rnd(tie, s)


@given(integers(2**40), st.integers(2, 30))
def test_sat(x, bits):
    assert ops.sat(x, bits) == sat(x, bits)
    assert ops.sat127(x) == max(-127, min(127, x))


@given(integers(ACC), st.integers(0, 32767), st.integers(1, 47))
def test_requantise(acc, multiplier, shift):
    assert ops.requantise(acc, multiplier, shift) == requantise(acc, multiplier, shift)


@given(integers(ACC), st.integers(1, ACC), st.integers(0, 32767), st.integers(1, 47))
def test_event(acc, threshold, multiplier, shift):
    assert ops.event(acc, threshold, multiplier, shift) == event(acc, threshold, multiplier, shift)
    assert ops.event(-acc, threshold, multiplier, shift) == -ops.event(acc, threshold, multiplier, shift)


@pytest.mark.parametrize("acc", [-ACC, -32768, -1000, -999, 0, 999, 1000, ACC])
def test_event_threshold_is_exact(acc):
    fired = ops.event(acc, 1000, 32767, 1)
    assert fired == (0 if abs(acc) < 1000 else math.copysign(127, acc))


def test_events_of_narrow_arrays_do_not_overflow():
    c = np.array([-32768, 32767], np.int16)
    assert ops.event(c, 32767, 32767, 20).tolist() == [-127, 127]
    assert ops.residual_sum(c, np.array([-131072, 131071])).tolist() == [-131072, 131071]
    assert ops.head_input(c, 32767, 23).tolist() == [-127, 127]
    assert ops.mix(c, c, 32767, 32767, 26).tolist() == [-32, 32]


def test_step_is_one_at_zero():
    assert ops.step(np.array([-1, 0, 1])).tolist() == [0, 1, 1]


@given(st.integers(0, 2**52))
def test_bit_length(x):
    assert ops.bit_length(x) == x.bit_length()


def test_bit_length_at_powers_of_two():
    values = np.array([(1 << n) + d for n in range(1, 50) for d in (-1, 0, 1)])
    assert ops.bit_length(values).tolist() == [int(v).bit_length() for v in values]


# ---- encoder and decay ---------------------------------------------------------------------------


@given(st.lists(integers(32767), min_size=1, max_size=30))
def test_membrane_follows_the_real_neuron(inputs):
    numerics, v, real = Numerics(), np.zeros(1, np.int64), Fraction(0)
    for x in inputs:
        real = max(min(real * Fraction(31130, 32768) + Fraction(x, 2048), Fraction(3)), Fraction(-3))
        v, s = ops.lif_step(v, np.array([x]), numerics)
        if abs(real - 1) > Fraction(20, 2048):  # away from the threshold rounding cannot matter
            assert s[0] == (real >= 1)
        real = Fraction(0) if s[0] else real
        assert abs(real * 2048 - int(v[0])) < 20  # half a unit a step, with leak 0.95: at most 10 units


@given(integers(32767), integers(32767), st.integers(0, 65535))
def test_decay_stays_between_old_and_input(h, z, beta):
    new = int(ops.decay_step(np.array([h]), np.array([z]), np.array([beta]))[0])
    assert new == h + rnd((z - h) * beta, 16)
    assert min(h, z) <= new <= max(h, z)


def test_decay_coefficient_is_one_a_head():
    new = ops.decay_step(np.zeros((2, 6), np.int64), np.full((2, 6), 100), np.array([0, 32768, 65535]))
    assert new.tolist() == [[0, 0, 50, 50, 100, 100]] * 2


# ---- attention -----------------------------------------------------------------------------------


@given(st.integers(0, 2**24 - 1), st.data())
def test_divide(den, data):
    num = data.draw(integers(127 * den))
    quotient = int(ops.divide(num, den))
    assert quotient == divide(num, den)
    if den:
        # the reciprocal is low by less than 2^-16 of itself, so by less than 1/8 at the largest quotient
        assert (
            abs(quotient - Fraction(64 * num, den)) <= Fraction(1, 2) + abs(Fraction(64 * num, den)) / 2**16
        )
        assert abs(quotient) <= 8128


@pytest.mark.parametrize("den", [1, 2, 3, 127, 2**23, 2**24 - 1, 512 * 32767])
def test_divide_at_the_bounds(den):
    assert ops.divide(127 * den, den) == 8128 and ops.divide(-127 * den, den) == -8128
    assert ops.divide(0, den) == 0


@pytest.mark.parametrize("name", PRESETS)
def test_slot_distances(name):
    shape = preset(name)
    held = {}
    for position in range(3 * shape.slots):
        held[shape.slot(position)] = position
        if position % 7 == 0 or position < 2 * shape.slots:
            expected = [position - held[slot] for slot in range(shape.populated(position))]
            assert ops.slot_distances(shape, position).tolist() == expected


def test_attention_scores_and_weights_by_hand():
    q, k = np.array([[1, 2]]), np.array([[[3, 4]], [[-5, 0]]])
    scores = ops.attention_scores(q, k, np.array([1, 0]), np.array([10]), 6)
    assert scores.tolist() == [[11 * 64 - 10, -5 * 64]]
    assert ops.attention_weights(np.array([[-1, 0, 32767, 32768]])).tolist() == [[0, 0, 32767, 32767]]


def test_attention_at_the_worst_case():
    shape = PRESETS["194m"]
    ring = np.full((shape.slots, shape.width), 127, np.int8)
    slopes = np.zeros(shape.heads, np.int16)
    position = 2 * shape.slots
    for sign in (1, -1):
        o = ops.attention(ring[0], ring, sign * ring, position, shape, slopes, 6)
        assert (o == sign * 8128).all()
    assert not ops.attention(-ring[0], ring, ring, position, shape, slopes, 6).any()


@pytest.mark.parametrize("position", [0, 3, 7, 8, 40])
def test_attention_is_the_weighted_mean(position):
    shape, rng = preset("odd"), np.random.default_rng(position)
    print("seed", position)
    q, ring_k, ring_v = (rng.integers(-5, 6, size).astype(np.int8) for size in (60, (8, 60), (8, 60)))
    slopes = rng.integers(0, 200, 5).astype(np.int16)
    o = ops.attention(q, ring_k, ring_v, position, shape, slopes, 6)
    populated = min(position + 1, 8)
    distances = ops.slot_distances(shape, position)
    for head in range(5):
        part = slice(12 * head, 12 * head + 12)
        scores = 64.0 * ring_k[:populated, part] @ q[part] - slopes[head] * distances
        weights = np.maximum(scores, 0)
        mean = weights @ ring_v[:populated, part] / max(weights.sum(), 1)
        assert np.abs(o[part] / 64 - mean).max() < 0.51 / 64


# ---- layer normalisation -------------------------------------------------------------------------


def norm_of(width, gamma_shift=14, epsilon=1000, seed=0):
    rng = np.random.default_rng(seed)
    gamma, beta = (rng.integers(-32768, 32768, width).astype(np.int16) for _ in range(2))
    return Norm(gamma, beta, np.array([gamma_shift, epsilon], np.int32))


def apply(pre, norm):
    return ops.layer_norm(np.array(pre), norm.gamma, norm.beta, *map(int, norm.scalars))


@given(
    st.lists(st.integers(-131072, 131071), min_size=1, max_size=40),
    st.integers(1, 31),
    st.integers(16, 2**31 - 1),
)
def test_layer_norm(pre, gamma_shift, epsilon):
    norm = norm_of(len(pre), gamma_shift, epsilon)
    assert apply(pre, norm).tolist() == layer_norm(pre, norm)


@pytest.mark.parametrize("width", [1, 60, 768, 2048])
@pytest.mark.parametrize("pattern", ["low", "high", "zero", "split", "one"])
def test_layer_norm_extremes(width, pattern):
    pre = {
        "low": [-131072] * width,
        "high": [131071] * width,
        "zero": [0] * width,
        "split": [131071 if i % 2 else -131072 for i in range(width)],
        "one": [131071] + [-131072] * (width - 1),
    }[pattern]
    for epsilon in (16, 2**31 - 1):
        norm = norm_of(width, 1, epsilon)
        assert apply(pre, norm).tolist() == layer_norm(pre, norm)


@pytest.mark.parametrize("width", [64, 128, 768])
@pytest.mark.parametrize("rms", [0.05, 1.0, 8.0])
def test_layer_norm_is_close_to_the_real_one(width, rms):
    rng = np.random.default_rng(width)
    pre = np.rint(rng.normal(0.3, rms, width) * 4096).astype(np.int64)
    pre = ops.sat(pre, 18)
    gamma = np.full(width, round(math.sqrt(width) * 2**14 / 64), np.int16)
    y = ops.layer_norm(pre, gamma, np.zeros(width, np.int16), 14, max(16, round(width * 1e-5 * 2**24))) / 2048
    real = pre / 4096
    real = (real - real.mean()) / np.sqrt(real.var() + 1e-5)
    # a table of 256 entries knows the root to 1/256
    assert np.abs(y - real).max() < np.abs(real).max() / 256 + 0.002


def test_layer_norm_of_a_batch_is_row_by_row():
    rng, norm = np.random.default_rng(3), norm_of(50)
    pre = rng.integers(-131072, 131072, (4, 50))
    assert (apply(pre, norm) == np.stack([apply(row, norm) for row in pre])).all()


def test_layer_norm_stats():
    pre = np.array([0, 0, 0, 4096])
    mean, e, r = ops.layer_norm_stats(pre, 16)
    spread = 3 * 1024**2 + 3072**2 + 16
    assert (mean, e) == (1024, 11) and r == ops.rsqrt_table()[spread * 64 >> 22]


def test_rsqrt_table():
    table = ops.rsqrt_table()
    assert len(table) == 256 and table[64] == 65281 and table.max() < 65536
    for i in range(64, 256):
        assert table[i] == round(2**16 / math.sqrt((i + 0.5) / 64))


@pytest.mark.parametrize("width", range(1, 2049, 7))
def test_inv_width_is_rounded(width):
    assert abs(Fraction(2**32, width) - ops.inv_width(width)) <= Fraction(1, 2)


# ---- head ----------------------------------------------------------------------------------------


def test_head_primitives():
    table = np.arange(-128, 128).clip(-127).astype(np.int8)
    assert ops.gelu(np.array([-128, -127, 0, 127]), table).tolist() == [-127, -127, 0, 127]
    assert ops.gelu_index(np.array([-ACC, 0, ACC]), 32767, 1).tolist() == [-128, 0, 127]
    assert ops.head_logits(np.array([-ACC, ACC]), np.array([65535, 65535], np.uint16)).tolist() == [
        -ACC * 65535,
        ACC * 65535,
    ]
    assert ops.argmax(np.array([3, 7, 7, -1])) == 1
    assert ops.argmax(np.array([-5, -5])) == 0


def test_matvec_is_exact_at_the_worst_case():
    weight = np.full((2, 4096), 127, np.int8)
    assert ops.matvec(weight, np.full(4096, -127, np.int8)).tolist() == [-(4096 * 127 * 127)] * 2
    assert 4096 * 127 * 127 < 2**27
