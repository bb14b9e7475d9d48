"""The reference against a plain re-implementation, and the rules of sessions and runs."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.model.config import MAX_POSITION, PRESETS, Numerics, preset
from symlight.model.reference import STOP_EOS, STOP_LENGTH, ExactMatrix, Reference
from symlight.model.session_file import SavedSession
from symlight.model.state import State
from symlight.model.synthetic import EXTREMES, random_model
from tests.benches.model.naive_reference import NaiveModel


def tokens(shape, seed, count):
    return np.random.default_rng(seed).integers(0, shape.vocab, count).tolist()


@pytest.fixture(scope="module")
def tiny():
    return random_model(preset("tiny"), 5)


@pytest.mark.parametrize("name, seed, count", [("tiny", 1, 20), ("odd", 2, 14), ("wide", 3, 11)])
def test_equals_the_naive_model_beyond_a_ring_wrap(name, seed, count):
    model = random_model(preset(name), seed)
    assert count > model.shape.slots
    reference, naive = Reference(model), NaiveModel(model)
    for token in tokens(model.shape, seed, count):
        result = reference.ingest(token, want_logits=True)
        expected = naive.logits(token)
        assert result.logits.tolist() == expected
        assert result.token == min(range(len(expected)), key=lambda i: (-expected[i], i))
    assert reference.state.membrane.tolist() == naive.membrane
    assert reference.state.decay.tolist() == naive.h
    for position in range(count - model.shape.window, count):
        slot = model.shape.slot(position)
        assert reference.state.ring_k[0, slot].tolist() == naive.keys[0][position]


@pytest.mark.parametrize("density", [0.0, 0.01, 1.0])
@pytest.mark.parametrize(
    "numerics", [Numerics(), Numerics(score_frac=0, lif_leak=0, lif_clamp=32767, lif_threshold=1)]
)
def test_equals_the_naive_model_at_odd_densities(density, numerics):
    model = random_model(preset("odd"), 7, density, numerics=numerics)
    check_against_naive(model, 5)


@pytest.mark.parametrize("extreme", EXTREMES)
def test_equals_the_naive_model_at_extremes(extreme):
    check_against_naive(random_model(preset("odd"), 8, extreme=extreme), 6)


def check_against_naive(model, count):
    reference, naive = Reference(model), NaiveModel(model)
    for token in tokens(model.shape, count, count):
        assert reference.ingest(token, want_logits=True).logits.tolist() == naive.logits(token)


def test_float64_products_are_used_where_float32_is_not_exact():
    weight = np.full((3, 2000), 127, np.int8)
    weight[0, 0] = 126
    x = np.full(2000, 127)
    assert ExactMatrix(weight)(x).tolist() == [127 * 127 * 2000 - 127, 127 * 127 * 2000, 127 * 127 * 2000]


def test_saturating_model_reaches_every_clamp():
    model = random_model(preset("tiny"), 1, extreme="saturate")
    reference, low, high = Reference(model), {}, {}
    for token in (0, 1, 2, 3, 5, 6, 7):
        trace = {}
        reference.ingest(token, True, trace)
        for name, value in trace.items():
            name = name.split(".")[-1]
            low[name] = min(low.get(name, 0), int(value.min()))
            high[name] = max(high.get(name, 0), int(value.max()))
    width = model.shape.width
    expected = {
        "e": (-127, 127),
        "q": (-127, 127),
        "k": (-127, 127),
        "v": (-127, 127),
        "z": (-32768, 32767),
        "o": (-8128, 8128),
        "m": (-127, 127),
        "u": (-32768, 32767),
        "e_u": (-127, 127),
        "pre_1": (-131072, 131071),
        "pre_2": (-131072, 131071),
        "c": (0, 32767),
        "f": (0, 1),
        "a": (0, 127),
        "t": (-128, 127),
        "g": (-127, 127),
    }
    assert {name: (low[name], high[name]) for name in expected} == expected
    assert high["logits"] == 127 * 65535 * width * 127


def test_all_scores_negative_gives_zero_attention():
    model = random_model(preset("tiny"), 3, extreme="negative_scores")
    reference = Reference(model)
    for token in tokens(model.shape, 0, 20):
        trace = {}
        reference.ingest(token, trace=trace)
        assert not trace["block.0.o"].any() and trace["block.0.q"].any() and trace["block.0.v"].any()


def test_empty_site_still_moves_the_state():
    model = random_model(preset("tiny"), 3, 0.0)
    reference = Reference(model)
    reference.state.decay[:] = 1000
    result = reference.ingest(3)
    assert not result.active.any()
    assert reference.state.position == 1 and (reference.state.decay != 1000).any()


def test_counts_are_nonzero_inputs(tiny):
    trace = {}
    result = Reference(tiny).ingest(9, trace=trace)
    for layer in range(tiny.shape.layers):
        counted = [np.count_nonzero(trace[f"block.{layer}.{name}"]) for name in ("e", "s", "e_u", "f")]
        assert result.active[layer].tolist() == counted
    assert result.token is None and result.logits is None


# ---- runs ----------------------------------------------------------------------------------------


def test_run_keeps_the_newest_token_pending(tiny):
    reference = Reference(tiny)
    run = reference.generate([1, 2, 3], 4)
    assert run.stop_reason == STOP_LENGTH and len(run.tokens) == 4
    assert (run.passes, run.head_evaluations) == (3 + 4 - 1, 4)
    assert reference.state.position == 6 and reference.state.pending == run.tokens[-1]


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_split_runs_equal_one_run(tiny, cut):
    whole, parts = Reference(tiny), Reference(tiny)
    expected = whole.generate([1, 2, 3], 6).tokens
    first = parts.generate([1, 2, 3], cut).tokens
    second = parts.generate([], 6 - cut).tokens
    assert first + second == expected and parts.state == whole.state


def test_no_new_tokens_leaves_the_last_input_pending(tiny):
    reference, other = Reference(tiny), Reference(tiny)
    run = reference.generate([4, 5, 6], 0)
    assert run.tokens == [] and run.head_evaluations == 0 and run.passes == 2
    assert reference.state.position == 2 and reference.state.pending == 6
    assert reference.generate([7], 3).tokens == other.generate([4, 5, 6, 7], 3).tokens
    assert reference.state == other.state


def test_single_token_prompt_without_budget_runs_nothing(tiny):
    reference = Reference(tiny)
    assert reference.generate([4], 0).passes == 0
    assert reference.state.position == 0 and reference.state.pending == 4


def test_end_of_sequence_is_returned_and_stays_pending(tiny):
    free = Reference(tiny).generate([1, 2], 8).tokens
    eos = free[3]
    stop = free.index(eos)
    reference = Reference(tiny)
    run = reference.generate([1, 2], 8, eos=eos)
    assert run.tokens == free[: stop + 1] and run.stop_reason == STOP_EOS
    assert run.passes == 2 + stop and run.head_evaluations == stop + 1
    assert reference.state.pending == eos
    # the next turn ingests it first
    continued, whole = reference.generate([9], 2).tokens, Reference(tiny)
    assert whole.generate([1, 2, *run.tokens, 9], 2).tokens == continued
    assert whole.state == reference.state


def test_end_of_sequence_in_the_prompt_does_not_stop(tiny):
    run = Reference(tiny).generate([3, 3], 1, eos=3)
    assert len(run.tokens) == 1


def test_end_of_sequence_as_the_last_budgeted_token(tiny):
    first = Reference(tiny).generate([1, 2], 1).tokens[0]
    assert Reference(tiny).generate([1, 2], 1, eos=first).stop_reason == STOP_EOS


@pytest.mark.parametrize(
    "prompt, n_new, message",
    [
        ([], 3, "prompt is empty"),
        ([1, 160], 3, "token 160 is outside the vocabulary 0..159"),
        ([-1], 3, "token -1"),
        ([1], -2, "-2"),
    ],
)
def test_refused_runs_change_nothing(tiny, prompt, n_new, message):
    reference = Reference(tiny)
    with pytest.raises(UserError, match=message):
        reference.generate(prompt, n_new)
    assert reference.state == State.new(tiny.shape)


def test_position_limit(tiny):
    reference = Reference(tiny)
    reference.state.position = MAX_POSITION - 3
    with pytest.raises(UserError, match=str(MAX_POSITION)):
        reference.generate([1, 2], 3)
    assert reference.state.position == MAX_POSITION - 3
    assert len(reference.generate([1, 2], 2).tokens) == 2
    assert reference.state.position == MAX_POSITION
    with pytest.raises(UserError, match="session is full"):
        reference.ingest(1)


def test_callbacks_see_every_token_and_pass(tiny):
    seen, positions = [], []
    run = Reference(tiny).generate(
        [1, 2], 3, on_token=seen.append, on_pass=lambda r: positions.append(r.position)
    )
    assert seen == run.tokens and positions == [0, 1, 2, 3]


# ---- state ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [0, 3, 25])
def test_saved_state_continues_identically(tiny, passes):
    reference = Reference(tiny)
    if passes:
        reference.generate(tokens(tiny.shape, 0, passes), 1)
    image = SavedSession(state=reference.state).to_bytes()
    other = Reference(tiny, SavedSession.from_bytes(tiny.shape, image).state)
    assert other.state == reference.state
    assert other.generate([1], 5).tokens == reference.generate([1], 5).tokens


def test_first_difference_is_readable(tiny):
    reference = Reference(tiny)
    reference.generate([1, 2, 3], 1)
    other = reference.state.copy()
    other.ring_v[1, 2, 7] += 1
    value = int(reference.state.ring_v[1, 2, 7])
    assert (
        reference.state.first_difference(other)
        == f"ring_v[1, 2, 7]: {value} != {value + 1} (1 elements differ)"
    )
    other.pending = None
    assert reference.state.first_difference(other).startswith("pending: ")


def test_unpopulated_slots_are_not_compared(tiny):
    reference = Reference(tiny)
    reference.ingest(1)
    other = reference.state.copy()
    other.ring_k[:, 1:] = 5
    assert other == reference.state
    other.ring_k[0, 0, 0] ^= 1
    assert other != reference.state


# ---- ring rule -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_ring_holds_exactly_the_visible_positions(name):
    shape = preset(name)
    held = {}
    for position in range(2 * shape.slots + 3):
        held[shape.slot(position)] = position
        visible = {p for p in range(position + 1) if p < shape.anchors or position - p <= shape.window}
        assert set(held.values()) == visible
        assert set(held) == set(range(shape.populated(position)))
