"""The 194M shapes on 32 channels: bit-exact, within the cycle budget, and as estimated. Takes a long
build."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from symlight.host.bench import table as bench_table
from symlight.host.bench.simulation import bench_package
from symlight.host.device.choosing import PLAIN, Logits, RunOptions
from symlight.host.device.kernels import obtain_kernel
from symlight.hw import config
from symlight.model.sampling import SamplerSettings, SamplingOptions
from symlight.sim.estimate.estimate_report import Question, ask
from symlight.sim.estimate.memory import Memory
from tests.benches.kernel.kernel_bench import Bench
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


CHOICES = {
    "a draw": RunOptions(SamplerSettings.of(SamplingOptions(temperature=0.8, seed=1), 1e-8)),
    "a draw of 40": RunOptions(SamplerSettings.of(SamplingOptions(temperature=0.8, top_k=40), 1e-8)),
    "candidates": RunOptions(None, Logits.CANDIDATES),
    "a draw, candidates": RunOptions(
        SamplerSettings.of(SamplingOptions(temperature=0.8), 1e-8), Logits.CANDIDATES
    ),
    "logits": RunOptions(None, Logits.GENERATED),
}
CHOICE_CYCLES, LOGITS_SHARE = 1_500, 0.03


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_choices_beside_a_greedy_pass():
    """The same decode passes greedily and with everything else that can be asked for, each from a saved
    state; tokens, candidates and logits are the reference's."""
    package = bench_table.table_package(CACHE, bench_table.MODEL)
    kernel = obtain_kernel("u50c", "partial-kv", CACHE)
    card = Bench(kernel, package.model, hbm="timed", seed=1, threads=2)
    reference, cycles = card.reference, {}
    reference.run(card.prompt(32), 1, None)
    try:
        for _ in range(3):
            state = reference.read_state()
            for name, options in {"greedy": PLAIN, **CHOICES}.items():
                card.machine.write_state(state)
                reference.write_state(state)
                ours, theirs = (one.run([], 1, None, None, options) for one in (card.machine, reference))
                assert ours.tokens == theirs.tokens
                assert np.array_equal(ours.logits, theirs.logits)
                assert np.array_equal(ours.candidates, theirs.candidates)
                cycles.setdefault(name, []).append(ours.cycles.prompt)
                print(name, ours.cycles.prompt, ours.cycles.phases["head"], flush=True)
    finally:
        card.close()
    plain = median(cycles.pop("greedy"))
    for name, found in cycles.items():
        more = median(found) - plain
        print(f"{name}: {more:.0f} cycles, {more / plain:.2%} of a greedy pass of {plain:.0f}")
        assert more <= (LOGITS_SHARE * plain if name == "logits" else CHOICE_CYCLES), name
