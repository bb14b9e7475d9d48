"""The measuring protocol on made-up cards whose figures are known, on the simulated card, and as a
command."""

import csv
import importlib.util
import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import sensor_shapes as shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_world import World, WorldMachine, WorldSampler

from symlight.host.protocol import LEAD, Campaign, ProtocolSettings
from symlight.host.protocol_report import FIGURES, over_rounds, protocol_json, samples_csv, summarise
from symlight.host.verify import VerificationError
from symlight.model.errors import UserError

pytestmark = pytest.mark.timeout(120)
SHORT = ProtocolSettings(prefixes=(32, 128), new_tokens=128, rounds=3, seconds=60, idle_seconds=60)


def campaign(world: World, chosen=SHORT, *, sampler="made up", machine=None, **more) -> Campaign:
    sampler = WorldSampler(world) if sampler == "made up" else sampler
    prompts = {prefix: list(range(prefix)) for prefix in chosen.prefixes}
    return Campaign(
        machine or WorldMachine(world), chosen, prompts, sampler, "made up", clock=world.clock,
        sleep=world.sleep, **more
    )


def measured(world: World, chosen=SHORT, **more) -> dict:
    return protocol_json(campaign(world, chosen, **more).run(), {"device": "xrt:0"})


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
    st.floats(0, 1), st.floats(0, 0.3), st.floats(10, 40), st.floats(0, 10), st.floats(0.05, 0.4),
    st.integers(0, 1000)
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
            "prefix": 32, **dict.fromkeys(FIGURES), "active_watts": w, "request_tokens_per_second": r,
            "request_gross_joules": w / r,
        }
        for w, r in ((30.0, 500.0), (20.0, 510.0), (25.0, 400.0))
    ]
    (entry,) = summarise(rounds)
    assert entry["active_watts"] == {"median": 25.0, "min": 20.0, "max": 30.0, "spread": 0.4}
    assert entry["request_gross_joules"]["median"] == 0.06
    assert entry["request_gross_joules_of_medians"] == 25 / 500
    assert entry["idle_watts"] is None and over_rounds([1.0, None]) is None and over_rounds([]) is None


# ---- order and content ----


def test_order_of_a_campaign():
    """Rounds go over all prefixes in turn; warm-up is outside the windows; a request is two runs."""
    world = World()
    chosen = ProtocolSettings(prefixes=(4, 9), new_tokens=8, rounds=2, seconds=1, idle_seconds=10, warmup=2)
    seen = []
    made = campaign(world, chosen)
    record = made.run(
        lambda record: seen.append((record.rounds[-1].prefix, record.rounds[-1].number, record.complete))
    )
    assert seen == [(4, 1, False), (9, 1, False), (4, 2, False), (9, 2, True)]
    assert made._sampler.entered and made._sampler.left
    assert [len(done.requests) for done in record.rounds] == [4] * 4, "1 s of requests of 0.251 s"
    assert world.runs[:6] == [(4, 0), (0, 8)] * 3
    others = len(world.runs) / 2 / 4 - 4        # of a round: warm-up, before the window, behind it
    assert 2 + LEAD / 0.251 + 1 <= others <= 2 + LEAD / 0.251 + 1 + 6
    for done in record.rounds:
        before, active, after = done.windows
        assert [w.kind for w in done.windows] == ["idle before", "active", "idle after"]
        assert before.end - before.begin == pytest.approx(5) and after.end - after.begin == pytest.approx(5)
        assert before.end + LEAD <= active.begin < before.end + LEAD + 3
        assert active.end + 5 < after.begin < active.end + 8
        assert active.end - active.begin == pytest.approx(4 * 0.251)


def test_progress_of_every_round_begins_and_ends():
    told = []
    campaign(
        World(), ProtocolSettings(prefixes=(4, 9), rounds=2, seconds=9),
        progress=lambda *step: told.append(step)
    ).run()
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == [f"round {n} of 2, prefix {p}" for n in (1, 2) for p in (4, 9)]
    for stage in stages:
        steps = [done for name, done, total in told if name == stage]
        assert (
            steps[0] == 0
            and steps == sorted(steps)
            and steps[-1] == 129
            and steps.count(129) == 1
            and len(set(steps)) > 100
        )


def test_a_request_that_passes_the_end_is_finished():
    world = World(decode=7.0)
    (done,) = campaign(world, ProtocolSettings(prefixes=(4,), rounds=1, seconds=10)).run().rounds
    assert len(done.requests) == 2 and done.windows[1].end - done.windows[1].begin > 14


def test_every_sample_is_kept():
    record = campaign(World(), ProtocolSettings(prefixes=(4,), rounds=1, seconds=10, idle_seconds=10)).run()
    rows = list(csv.DictReader(io.StringIO(samples_csv(record))))
    assert len(rows) == len(record.series.samples) > 100
    new = [row for row in rows if row["new"] == "1"]
    assert len(new) == len(record.series.power()[0]) and 0.2 < len(new) / len(rows) < 0.3
    assert {row["window"] for row in rows} == {"", "idle before", "active", "idle after"}
    assert all(float(row["fpga0"]) >= 69.9 and float(row["watts"]) >= 23 for row in rows)
    result = protocol_json(record, {})
    assert result["readings"] == {"taken": len(rows), "distinct": len(new), "failed": 0}
    warm = result["rounds"][0]["windows"][1]["temperatures"]["fpga0"]
    assert 70 < warm["mean"] < warm["max"] < 71
    json.dumps(result)


def test_the_plot_has_every_window(tmp_path):
    pytest.importorskip("matplotlib")
    from symlight.host.protocol_plot import plot

    record = campaign(World(), ProtocolSettings(prefixes=(4, 8), rounds=1, seconds=10, idle_seconds=10)).run()
    figure = plot(record, protocol_json(record, {"device": "xrt:0"}), tmp_path / "p.png")
    power, bars = figure.axes
    assert len(power.patches) == 6 and len(bars.patches) == 4
    assert bars.patches[0].get_height() == pytest.approx(23 * 0.25 / 128)
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_the_figures_can_be_computed_again_from_what_is_kept():
    """By other code, out of the two files alone."""
    record = campaign(
        World(busy=27.5), ProtocolSettings(prefixes=(4,), rounds=2, seconds=20, idle_seconds=20)
    ).run()
    result = json.loads(json.dumps(protocol_json(record, {})))
    rows = [row for row in csv.DictReader(io.StringIO(samples_csv(record))) if row["new"] == "1"]
    times, watts = ([float(row[name]) for row in rows] for name in ("seconds", "watts"))
    for done in result["rounds"]:
        power = {}
        for window in done["windows"]:
            fine = np.linspace(window["begin"], window["end"], 200_001)
            power[window["kind"]] = np.interp(fine, times, watts).mean()
        idle = (power["idle before"] + power["idle after"]) / 2
        seconds = np.array(done["seconds_of_requests"]).sum(axis=0)
        generated = len(done["seconds_of_requests"]) * result["settings"]["new_tokens"]
        assert done["active_watts"] == pytest.approx(power["active"], abs=1e-3) and done[
            "idle_watts"
        ] == pytest.approx(idle, abs=1e-3)
        assert done["decode_incremental_joules"] == pytest.approx(
            (power["active"] - idle) * seconds[1] / generated, rel=1e-3
        )
        assert done["request_gross_joules"] == pytest.approx(
            power["active"] * seconds.sum() / generated, rel=1e-3
        )


# ---- what must be noticed ----


def test_other_tokens_void_the_measurement():
    world = World()
    machine = WorldMachine(world)
    machine.broken = 20
    with pytest.raises(VerificationError, match="behind 32 prompt tokens the device generated .* void"):
        campaign(world, machine=machine).run()
    with pytest.raises(VerificationError, match="instead of .1, 2, 3."):
        campaign(World(), ProtocolSettings(prefixes=(32,), new_tokens=3), expected={32: [1, 2, 3]}).run()


def test_a_sensor_that_falls_silent_costs_its_window_only():
    """The round without power has its throughput; the summary has no median of what one round lacks."""
    chosen = ProtocolSettings(prefixes=(32,), rounds=3, seconds=30, idle_seconds=30)
    window = campaign(World(), chosen).run().rounds[1].windows[0]       # the second round's first idle window
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


# ---- the command ----


class Wired:
    """Sensors of the fake card: 25 W and a new answer every time it is asked."""

    def __init__(self, watts="25.0"):
        self.asked, self.watts = 0, watts

    def __call__(self, what):
        self.asked += 1
        answers = {
            "name": "fake_card", "bdf": "0000:3b:00.1", "max_clock_frequency_mhz": "0",
            "thermal": shapes.thermal(),
        }
        return answers.get(what) or shapes.electrical(self.watts, 1 + self.asked / 1000)


@pytest.fixture
def wired(fake_pyxrt, monkeypatch):
    """The fake card behind `import pyxrt`, with sensors."""
    sensors, api = Wired(), sys.modules["pyxrt"]
    monkeypatch.setattr(api.device, "get_info", lambda self, what: sensors(what))
    names = ("name", "bdf", "electrical", "thermal", "max_clock_frequency_mhz")
    api.xrt_info_device = SimpleNamespace(**{name: name for name in names})
    return sensors


@pytest.fixture
def bench(symlight, package_path, xclbin, tmp_path):
    def call(*arguments):
        return symlight(
            "bench", "--model", package_path, "--device", "xrt:0", "--xclbin", xclbin, "--cache",
            tmp_path / "cache",
            "--prefix", 3, 5, "--new-tokens", 4, "--rounds", 2, "--seconds", 0.3, "--idle-seconds", 5.5,
            *arguments,
        )

    return call


@pytest.mark.slow
def test_the_command_on_a_card(bench, wired, tmp_path):
    out = tmp_path / "result.json"
    result = bench("--out", out, "--json", "--verify", "--seconds", 2, "--idle-seconds", 8).json
    assert json.loads(out.read_text()) == result
    assert result["complete"] and result["device"] == "xrt:0" and result["sensor"] == "xrt" and result[
        "verified"
    ]
    assert [(one["prefix"], one["round"]) for one in result["rounds"]] == [(3, 1), (5, 1), (3, 2), (5, 2)]
    assert result["summary"][0]["active_watts"]["median"] == pytest.approx(25)
    assert result["summary"][0]["request_incremental_joules"]["median"] == pytest.approx(0, abs=1e-9)
    rows = list(csv.DictReader(io.StringIO(out.with_suffix(".csv").read_text())))
    assert len(rows) == result["readings"]["taken"] and wired.asked >= len(rows)
    assert out.with_suffix(".png").exists() == (importlib.util.find_spec("matplotlib") is not None)


def test_the_command_on_a_card_without_a_sensor(bench, wired, monkeypatch, tmp_path):
    wired.watts = "N/A"
    monkeypatch.chdir(tmp_path)
    result = bench()
    assert result.code == 0, result.err
    assert "not measured: power and energy: the card at 0000:3b:00.1" in " ".join(result.err.split())
    (file,) = tmp_path.glob("energy-xrt_0-*.json")
    found = json.loads(file.read_text())
    assert (
        found["summary"][0]["decode_tokens_per_second"]["median"] > 0
        and found["about_device"]["name"] == "fake_card"
    )
    assert not list(tmp_path.glob("*.csv"))


def test_ctrl_c_keeps_the_rounds_that_are_done(bench, wired, tmp_path, card):
    """The third run of a prefix's second round never comes; what was measured before is on disk."""
    wired.watts = "N/A"
    out = tmp_path / "result.json"
    start = card.start

    def interrupt(values):
        if out.exists() and len(json.loads(out.read_text())["rounds"]) == 2:
            raise KeyboardInterrupt
        start(values)

    card.start = interrupt
    assert bench("--out", out).error(130) == "interrupted"
    found = json.loads(out.read_text())
    assert len(found["rounds"]) == 2 and found["complete"] is False and not list(tmp_path.glob(".result*"))


def test_prefixes_in_one_option(symlight, package_path):
    for words in (("--prefix", "3", "x"), ("--prefix", "3", "1")):
        assert "--prefix" in symlight("bench", "--model", package_path, *words).error()
