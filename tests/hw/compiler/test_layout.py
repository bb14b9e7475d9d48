"""hw.compiler.layout: plans of matrices and rings by their definition, and what does not fit is refused."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.hw.compiler.layout import Layout, MatrixPlan, plan_matrix, plan_ring
from symlight.hw.config import Engine, card
from symlight.model.config import preset

pytestmark = pytest.mark.timeout(60)

engines = st.builds(Engine, channels=st.integers(1, 32), lanes=st.sampled_from([16, 32, 64]))


def owners(plan: MatrixPlan, row: int, word: int) -> tuple[int, int, int]:
    """(channel, row within the group, beat within the row) of an output word of an input row."""
    group, column = row % plan.groups, word // plan.beats
    return group * plan.columns + column, row // plan.groups, word % plan.beats


@settings(deadline=None)
@given(engines, st.integers(1, 12), st.integers(1, 40))
@example(Engine(channels=1), 1, 1)
@example(Engine(channels=32, lanes=16), 12, 1)
def test_every_word_of_a_matrix_has_a_beat_of_its_own(engine, in_words, out_words):
    plan = plan_matrix(engine, in_words, out_words)
    places = {owners(plan, row, word) for row in range(in_words * engine.lanes) for word in range(out_words)}
    assert len(places) == in_words * engine.lanes * out_words
    assert all(channel < engine.channels for channel, _, _ in places)
    assert all(row * plan.beats + beat < plan.size for _, row, beat in places)


@settings(deadline=None)
@given(engines, st.integers(1, 12), st.integers(1, 40))
def test_a_matrix_has_the_fewest_beats_and_the_fewest_groups(engine, in_words, out_words):
    """By plain search over all powers of two."""
    sizes = {}
    for groups in (1, 2, 4, 8, 16, 32, 64):
        if groups <= min(engine.channels // engine.joined, engine.lanes):
            columns = engine.channels // groups
            sizes[groups] = in_words * engine.lanes // groups * -(-out_words // columns)
    plan = plan_matrix(engine, in_words, out_words)
    fewest = min(sizes.values())
    assert plan.size == fewest
    assert plan.groups == min(groups for groups, size in sizes.items() if size == fewest)
    assert plan.groups * plan.columns <= engine.channels
    assert plan.columns >= engine.joined


@pytest.mark.parametrize("shape", ["tiny", "odd", "demo", "mid", "194m"])
@pytest.mark.parametrize("name", ["sim2", "sim6", "u50c28", "u50c"])
def test_every_head_of_every_slot_has_a_beat_of_its_own(name, shape):
    engine, model = card(name), preset(shape)
    plan = plan_ring(engine, model)
    assert plan.columns << plan.log_groups <= engine.channels
    assert plan.columns >= engine.joined
    places = set()
    for slot in range(model.slots):
        for head in range(model.heads):
            column = head // plan.heads
            assert column < plan.columns
            channel = slot % (1 << plan.log_groups) * plan.columns + column
            for beat in range(2 * plan.head_words):  # K, then V
                at = (slot >> plan.log_groups) * plan.slot_beats + beat * plan.heads + head % plan.heads
                assert at < plan.size
                places.add((channel, at))
    assert len(places) == model.slots * model.heads * 2 * plan.head_words


def test_the_full_size_is_cut_as_documented():
    """docs/hbm-map.md: groups, columns, beats a row and channel."""
    layout = Layout(card("u50c"), preset("194m"))
    cut = {
        name: (plan.groups, plan.columns, plan.beats)
        for name in ("qkv", "decay", "out", "up", "down", "prior")
        for plan in [getattr(layout, name)]
    }
    assert cut == {
        "qkv": (4, 8, 9),
        "decay": (4, 8, 3),
        "out": (4, 8, 3),
        "down": (4, 8, 3),
        "up": (1, 32, 4),
        "prior": (4, 8, 1),
    }
    assert (1 << layout.ring.log_groups, layout.ring.columns, layout.ring.slot_beats) == (8, 4, 12)


def test_regions_do_not_overlap():
    layout = Layout(card("sim4"), preset("demo"))
    regions = [
        (bases[name], getattr(layout, name).size)
        for bases in layout.bases
        for name in bases
        if name != "ring"
    ]
    regions += [(bases["ring"], layout.ring.size) for bases in layout.bases]
    regions += [
        (layout.prior_base, layout.prior.size),
        (layout.head_base, layout.tiles * layout.tile_beats),
        (layout.parameter_base, layout.parameter_words * layout.parameter_beats),
        (layout.slope_base, layout.slope_beats),
    ]
    regions.sort()
    for (base, size), (following, _) in zip(regions, regions[1:], strict=False):
        assert base + size <= following
    assert regions[-1][0] + regions[-1][1] <= layout.size


@pytest.mark.parametrize(
    "change, quantity",
    [
        ({"accumulators": 2}, "accumulator words"),
        ({"vector_words": 2}, "vector buffer words"),
        ({"width_words": 2}, "residual words"),
        ({"state_words": 2}, "decay state words"),
        ({"parameter_words": 2}, "parameter words"),
        ({"table_entries": 2}, "operation table entries"),
        ({"kv_beats": 2}, "KV staging beats"),
        ({"heads": 2}, "heads, padded to whole columns"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change, quantity):
    engine = replace(card("sim2"), **{"kv_beats": 4096, **change})
    have = next(iter(change.values()))
    with pytest.raises(UserError, match=f"the model needs [0-9]+ {quantity}.* this kernel has {have}; "):
        Layout(engine, preset("demo"))
