"""hw.channel.channel: a whole channel against the integer model, and that its bench can fail."""

from dataclasses import replace

import pytest

from symlight.hw.channel.channel import Channel
from symlight.hw.config import card
from tests.benches.bench import BenchError, run_bench
from tests.benches.bench_build import ports_only, to_verilog

SMALL = {
    "lanes": 16,
    "read_beats": 128,
    "item_depth": 16,
    "kv_beats": 256,
    "query_words": 8,
    "heads": 4,
    "vector_words": 16,
    "accumulators": 16,
}


def run(component=Channel, test_filter=None, seed=1):
    engine = replace(card("sim8"), **SMALL)
    text = ports_only(to_verilog(component(engine)))
    return run_bench(text, "channel.cocotb_channel", test_filter, parameters={"engine": SMALL}, seed=seed)


@pytest.mark.parametrize("seed, test_filter, count", [(1, None, 13), (2, "passes", 4)])
def test_channel(seed, test_filter, count):
    assert run(test_filter=test_filter, seed=seed) == count


class _ForgetsTheFence(Channel):
    """A channel whose loader does not wait for the words that were written in the pass before."""

    def _flows(self, m):
        super()._flows(m)
        m.d.comb += self._loader.writes_quiet.eq(1)


def test_bench_sees_a_stale_slot():
    with pytest.raises(BenchError, match="'load'"):
        run(_ForgetsTheFence, "slow_responses")
