"""The measuring protocol on made-up cards: the order of a campaign, and what of it is kept."""

import csv
import io
import json

import numpy as np
import pytest

from symlight.host.bench.protocol import LEAD, ProtocolSettings
from symlight.host.bench.protocol_report import protocol_json, samples_csv
from tests.benches.host.measured_world import World, campaign

pytestmark = pytest.mark.timeout(120)


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
    others = len(world.runs) / 2 / 4 - 4  # of a round: warm-up, before the window, after it
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
        World(),
        ProtocolSettings(prefixes=(4, 9), rounds=2, seconds=9),
        progress=lambda *step: told.append(step),
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
    from symlight.host.bench.protocol_plot import plot

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
