"""hw.channel.attention (with intake, walk, score, staging) against the integer model."""

from dataclasses import replace

import pytest
from bench import BenchError, run_bench

from symlight.hw.channel.attention import AttentionEngine
from symlight.hw.config import card

SMALL = {"lanes": 16, "kv_beats": 256, "query_words": 8, "heads": 4}


def run(config=SMALL, test_filter="^(?!.*resident)", seed=1, **parameters):
    component = AttentionEngine(engine=replace(card("sim2"), **config))
    return run_bench(
        component, "cocotb_attention", test_filter, parameters={"engine": config, **parameters}, seed=seed
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_attention(seed):
    assert run(seed=seed) > 20


def test_resident_ring():
    """Two layers' whole rings on chip: nothing is loaded, slots come from earlier passes only."""
    assert run({**SMALL, "kv_resident": True}, "resident") == 4


def test_bench_sees_a_wrong_q():
    with pytest.raises(BenchError, match="numerators of"):
        run(test_filter="from_the_first_token", corrupt=True)
