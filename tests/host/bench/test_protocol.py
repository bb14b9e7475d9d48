"""The measuring protocol on made-up cards whose figures are known: the figures, and what must be noticed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.host.bench.protocol import ProtocolSettings
from symlight.host.bench.protocol_report import FIGURES, over_rounds, summarise
from symlight.host.device.verify import VerificationError
from tests.benches.host.measured_world import World, WorldMachine, WorldSampler, campaign, measured

pytestmark = pytest.mark.timeout(120)


# ---- known answers ----


def test_figures_of_a_card_with_constant_power():
    world = World(idle=23.0, busy=23.0, prefill=0.05, decode=0.2)
    result = measured(world)
    assert result["complete"] and not result["not_measured"] and len(result["rounds"]) == 6
    for entry in result["summary"]:
        value = {name: entry[name]["median"] for name in FIGURES}
        assert value["decode_tokens_per_second"] == pytest.approx(128 / 0.2)
        assert value["request_tokens_per_second"] == pytest.approx(128 / 0.25)
        assert (value["prefill_seconds"], value["decode_seconds"]) == pytest.approx((0.05, 0.2))
        assert value["device_passes_per_second"] == pytest.approx(127 / (0.2 * 0.9))
        assert value["idle_watts"] == pytest.approx(23) and value["active_watts"] == pytest.approx(23)
        assert value["decode_gross_joules"] == pytest.approx(23 * 0.2 / 128)
        assert value["decode_incremental_joules"] == pytest.approx(0, abs=1e-12)
        assert value["request_gross_joules"] == pytest.approx(23 * 0.25 / 128)
        assert value["window_joules"] == pytest.approx(23 * 0.251 / 128, rel=1e-6)
        assert entry["request_gross_joules_of_medians"] == pytest.approx(23 * 0.25 / 128)
        assert all(
            entry[name]["spread"] == pytest.approx(0, abs=1e-9)
            for name in FIGURES
            if entry[name]["spread"] is not None
        )


def test_figures_of_the_papers_card():
    """Its idle-split run (section 5.2): equation 11 comes out, to its last digit."""
    decode = 128 / 643.03
    world = World(idle=23.623, busy=28.534, prefill=128 / 518.4 - decode, decode=decode, overhead=0)
    (entry,) = measured(world, ProtocolSettings(prefixes=(32,), seconds=60, rounds=3))["summary"]
    value = {name: entry[name]["median"] for name in FIGURES}
    assert value["idle_watts"] == pytest.approx(23.623, abs=1e-9)
    assert value["active_watts"] == pytest.approx(28.534, abs=1e-9)
    names = ("decode_gross_joules", "decode_incremental_joules", "decode_idle_share_joules")
    assert [round(value[name], 5) for name in names] == [0.04437, 0.00764, 0.03674]
    assert value["request_tokens_per_second"] == pytest.approx(518.4)


def test_a_card_that_warms_up_is_split_with_the_idle_of_both_sides():
    """Power drifts in a straight line: idle before and after average to the drift in the middle of the
    requests."""
    world = World(idle=20.0, busy=20.0, drift=lambda t: 0.01 * t, overhead=0)
    result = measured(world, ProtocolSettings(prefixes=(32,), rounds=1, seconds=50))
    (done,) = result["rounds"]
    before, active, after = ((w["begin"] + w["end"]) / 2 for w in done["windows"])
    # the last measurement is up to a second old, and seen a quarter later
    assert done["active_watts"] == pytest.approx(20 + 0.01 * active, abs=0.013)
    assert done["idle_watts"] == pytest.approx(20 + 0.01 * (before + after) / 2, abs=0.013)
    assert abs(done["active_watts"] - done["idle_watts"]) < 0.05 < 0.01 * (active - before) / 2, (
        "one side alone would not do"
    )


def test_the_first_seconds_of_idle_do_not_count():
    """A card that falls to its idle power in 4 s after the requests: the idle windows see nothing of it."""

    class Cooling(World):
        def power(self, time):
            level = super().power(time)
            since = time - max(
                (
                    edge
                    for edge, watts in zip(self.edges, self.levels, strict=True)
                    if watts == self.busy and edge <= time
                ),
                default=-99,
            )
            return self.busy if level == self.idle and since < 4 + self.decode else level

    result = measured(Cooling(), ProtocolSettings(prefixes=(32,), rounds=1, seconds=30, idle_seconds=30))
    assert result["rounds"][0]["idle_watts"] == pytest.approx(23)


@settings(max_examples=20, deadline=None)
@given(
    st.floats(0, 1),
    st.floats(0, 0.3),
    st.floats(10, 40),
    st.floats(0, 10),
    st.floats(0.05, 0.4),
    st.integers(0, 1000),
)
def test_any_phase_and_jitter_of_the_sensor(phase, jitter, idle, more, period, seed):
    """Incremental power is right within what two ends of a window and a late look can hide."""
    world = World(idle=idle, busy=idle + more, prefill=0.07, decode=0.31, overhead=0)
    sampler = WorldSampler(world, phase=phase, jitter=jitter, period=period, seed=seed)
    (done,) = measured(
        world, ProtocolSettings(prefixes=(32,), rounds=1, seconds=20, idle_seconds=20), sampler=sampler
    )["rounds"]
    assert done["idle_watts"] == pytest.approx(idle, abs=1e-9)
    assert done["active_watts"] == pytest.approx(
        idle + more, abs=more * (1 + 2 * jitter + period) / 20 + 1e-9
    )


def test_rounds_are_reduced_each_by_itself():
    """Medians of columns need not be of one round, and energy of medians is not the median of energies."""
    rounds = [
        {
            "prefix": 32,
            **dict.fromkeys(FIGURES),
            "active_watts": w,
            "request_tokens_per_second": r,
            "request_gross_joules": w / r,
        }
        for w, r in ((30.0, 500.0), (20.0, 510.0), (25.0, 400.0))
    ]
    (entry,) = summarise(rounds)
    assert entry["active_watts"] == {"median": 25.0, "min": 20.0, "max": 30.0, "spread": 0.4}
    assert entry["request_gross_joules"]["median"] == 0.06
    assert entry["request_gross_joules_of_medians"] == 25 / 500
    assert entry["idle_watts"] is None and over_rounds([1.0, None]) is None and over_rounds([]) is None


# ---- what must be noticed ----


def test_other_tokens_reject_the_run():
    world = World()
    machine = WorldMachine(world)
    machine.broken = 20
    with pytest.raises(VerificationError, match="after 32 prompt tokens the device generated .* rejected"):
        campaign(world, machine=machine).run()
    with pytest.raises(VerificationError, match="instead of .1, 2, 3."):
        campaign(World(), ProtocolSettings(prefixes=(32,), new_tokens=3), expected={32: [1, 2, 3]}).run()


def test_a_sensor_that_falls_silent_costs_its_window_only():
    """The round without power has its throughput; the summary has no median of what one round lacks."""
    chosen = ProtocolSettings(prefixes=(32,), rounds=3, seconds=30, idle_seconds=30)
    window = campaign(World(), chosen).run().rounds[1].windows[0]  # the second round's first idle window
    world = World()
    result = measured(
        world, chosen, sampler=WorldSampler(world, silent=(window.begin + 8, window.begin + 16))
    )
    watts = [one["idle_watts"] for one in result["rounds"]]
    assert watts == [pytest.approx(23), None, pytest.approx(23)] and all(
        one["decode_tokens_per_second"] for one in result["rounds"]
    )
    (sentence,) = result["not_measured"]
    assert "`idle before` of prefix 32, round 2: the sensor gave nothing new for" in sentence
    (entry,) = result["summary"]
    assert entry["idle_watts"] is None and entry["request_incremental_joules"] is None
    assert entry["active_watts"]["median"] > 23 and entry["request_gross_joules"] is not None


def test_a_window_that_is_too_short_for_the_sensor_has_no_power():
    result = measured(World(), ProtocolSettings(prefixes=(32,), rounds=1, seconds=2, idle_seconds=20))
    (done,) = result["rounds"]
    assert done["active_watts"] is None and done["idle_watts"] == pytest.approx(23)
    assert "too few; measure for longer" in result["not_measured"][0] and done["window_joules"] is None


def test_a_sensor_that_gives_no_power_at_all():
    world = World()
    result = measured(world, sampler=WorldSampler(world, mute=True))
    assert result["readings"]["distinct"] == 0
    assert all(one["active_watts"] is None for one in result["rounds"])


def test_without_a_sensor_nobody_idles():
    world = World()
    result = measured(world, ProtocolSettings(prefixes=(32,), rounds=2, seconds=10), sampler=None)
    assert [w["kind"] for one in result["rounds"] for w in one["windows"]] == ["active"] * 2
    assert result["summary"][0]["decode_tokens_per_second"]["median"] == pytest.approx(640)
    assert result["sensor"] is None and result["not_measured"] == ["power and energy: made up"]


def test_kernel_time_needs_one_request():
    world = World()
    result = measured(world, sampler=None, timing="kernel")
    assert [one["requests"] for one in result["rounds"]] == [1, 1]
    assert result["summary"][0]["decode_tokens_per_second"]["median"] == pytest.approx(128 / (0.2 * 0.9))
    assert any("times as a host sees them" in sentence for sentence in result["not_measured"])


@pytest.mark.parametrize("values, sentence", [
    ({"prefixes": ()}, "at least one"), ({"prefixes": (4, 4)}, "different numbers"),
    ({"prefixes": (0, 4)}, "prefix is 0"),
    ({"new_tokens": 0}, "new tokens is 0"), ({"rounds": 0}, "rounds is 0"),
    ({"seconds": 0.0}, "more than 0 seconds"), ({"idle_seconds": 5.0}, "more than the 5 that are dropped"),
])  # fmt: skip
def test_settings_that_measure_nothing(values, sentence):
    with pytest.raises(UserError, match=sentence):
        ProtocolSettings(**values)
