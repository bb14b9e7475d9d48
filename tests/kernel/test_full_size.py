"""The 194M shapes on 32 channels: bit-exact, within the cycle budget, and as estimated. Takes a long
build."""

from dataclasses import replace

import numpy as np
import pytest

from symlight.host.bench import table as bench_table
from symlight.host.bench.simulation import bench_package
from symlight.hw import config
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory
from tests.benches.kernel.kernel_list import CACHE

BUDGET = {"decode": 90_000, "prompt": 43_000}


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_partial_kv():
    package = bench_table.table_package(CACHE, bench_table.MODEL)
    settings = replace(bench_table.SHORT, build="partial-kv", prefix=4, new_tokens=3, autonomous=True)
    result = bench_package(package, settings, CACHE)
    assert result["bit_exact"], result["difference"]
    assert result["executed_macs"] == pytest.approx(0.498, abs=0.003)
    for kind, most in BUDGET.items():
        cycles = result[f"{kind}_cycles"]["median"]
        found = ask(
            Question(
                engine=config.build(config.card(settings.card), settings.build),
                shape=package.shape,
                memory=Memory(clock_mhz=175),
                densities=np.array(result[kind]["density_by_layer"]),
                prefix=settings.prefix,
                new_tokens=settings.new_tokens,
            )
        )
        assert cycles <= most and found[f"{kind}_cycles"] == pytest.approx(cycles, rel=0.03), kind
    assert result["port_utilisation"] > 0.85
    mean = np.mean([cycles for kind, cycles in result["pass_cycles"] if kind == "decode"])
    assert result["autonomous_decode_cycles_mean"] == pytest.approx(mean, rel=0.01)
