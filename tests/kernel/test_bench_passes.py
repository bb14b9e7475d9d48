"""`symlight bench` on the simulated card: a pass measured by itself is the pass of a longer run; differences
are found."""

import json
from dataclasses import replace

import numpy as np
import pytest

from symlight.host.bench.bench_report import bench_json
from symlight.host.bench.measure import ReferenceRun, measure
from symlight.host.bench.simulation import BenchSettings
from symlight.host.device.opening import DeviceOptions
from symlight.hw import config
from symlight.hw.compiler.layout import Layout
from symlight.model.reference import SITES
from symlight.sim.hbm import header_constants
from tests.benches.kernel.kernel_list import CACHE, OPTIMISE

pytestmark = pytest.mark.kernel("sim4")
PREFIX, NEW = 7, 4


@pytest.fixture
def measured(kernel, demo):
    """measured(hbm=..., dense=..., change=...) -> (Measurement, ReferenceRun) on the demo package."""

    def make(*, hbm="ideal", ingest=True, dense=False, change=None):
        prompt = np.random.default_rng(1).integers(0, demo.shape.vocab, PREFIX).tolist()
        expected = ReferenceRun(demo, prompt, NEW, ingest=ingest)
        if change is not None:
            change(expected)
        options = DeviceOptions(
            card="sim4",
            build="runtime",
            hbm=hbm,
            cache=CACHE,
            dense=dense,
            full_kv=dense,
            simulation={"optimise": OPTIMISE},
        )
        return measure(demo, expected, options, clock_mhz=175, autonomous=True), expected

    return make


@pytest.mark.parametrize("dense", [False, True])
def test_a_pass_by_itself_is_the_pass_of_a_longer_run(measured, dense):
    """Without refresh nothing but the pass decides: the means are equal to the cycle."""
    result, _ = measured(dense=dense)
    decode = [one.cycles for one in result.of("decode")]
    assert result.difference is None and len(decode) == NEW - 1 and len(result.of("prompt")) == PREFIX - 1
    assert result.autonomous == sum(decode) / len(decode)


def test_a_pass_with_refresh_is_nearly_that(measured):
    """Each port may meet one refresh more, or fewer, in a pass by itself than in a pass of a run."""
    result, _ = measured(hbm="timed")
    refresh = header_constants()["trfc"] * result.clock_mhz / 1000  # cycles
    alone = np.mean([one.cycles for one in result.of("decode")])
    assert result.autonomous == pytest.approx(alone, abs=config.card("sim4").channels * refresh)


def test_every_pass_is_whole(measured, demo):
    result, expected = measured()
    assert result.tokens == expected.tokens and len(result.tokens) == NEW
    for one in result.passes:
        assert sum(map(sum, one.phases.values())) == one.cycles
        assert (one.bytes_read["head"] > 0) == (one.kind != "prompt")
        assert one.active.shape == (demo.shape.layers, len(SITES)) and one.active.all()
        beats = sum(one.bytes_read.values()) // 32
        assert one.ports["read_beats"] == beats and one.ports["read_waits"] < 4 * one.cycles
    assert result.of("prompt")[0].active.tolist() == expected.results[1].active.tolist()


def test_a_loaded_state_gives_the_passes_of_the_ingested_one(measured):
    """Behind `load` stand two prompt tokens: the passes and tokens from there are the same to the cycle."""
    whole, _ = measured()
    loaded, _ = measured(ingest=False)
    assert (
        loaded.difference is None and loaded.tokens == whole.tokens and loaded.autonomous == whole.autonomous
    )
    assert [one.cycles for one in loaded.passes] == [
        one.cycles for one in whole.passes[-len(loaded.passes) :]
    ]
    assert [one.kind for one in loaded.passes] == ["prompt", "first"] + ["decode"] * (NEW - 1)


@pytest.mark.parametrize("what", ["token", "active", "state"])
def test_every_difference_is_found(measured, what):
    def change(expected: ReferenceRun) -> None:
        last = expected.results[-1]
        if what == "token":
            expected.results[-1] = replace(last, tokens=[last.tokens[0] ^ 1])
        elif what == "active":
            expected.results[-1] = replace(last, active=last.active + np.eye(*last.active.shape, dtype=int))
        else:
            expected.final.decay[1, 5] += 1

    result, _ = measured(change=change)
    words = {"token": "tokens", "active": "nonzero inputs", "state": "decay"}
    assert words[what] in result.difference


def test_the_result_of_a_measurement(measured, demo):
    result, _ = measured(hbm="timed")
    layout = Layout(config.build(config.card("sim4"), "partial-kv"), demo.shape)
    told = bench_json([result], layout, {"build": "partial-kv", "prefix": PREFIX})
    json.dumps(told)
    assert told["bit_exact"] is True and told["decode_cycles"]["min"] <= told["decode_cycles"]["median"]
    assert 0.3 < told["port_utilisation"] <= told["decode"]["port_cycles"]["beats"] < 1
    assert min(told["decode"]["port_cycles"].values()) >= 0
    assert told["simulation_cycles_per_second"] > 0 and BenchSettings().clocks() == [175]
