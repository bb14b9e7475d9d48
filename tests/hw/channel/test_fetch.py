"""hw.channel.fetch, and that its bench can fail."""

import pytest

from symlight.hw.channel import fetch
from symlight.hw.channel.fetch import Fetch
from tests.benches.bench import BenchError, run_bench
from tests.benches.channel.fetch_bench import ENGINE


@pytest.mark.parametrize("seed", [1, 2])
def test_fetch(seed):
    assert run_bench(Fetch(ENGINE), "channel.cocotb_fetch", seed=seed) == 24


class _NoCredit(Fetch):
    """A fetch unit that forgets the size of its read FIFO."""

    def _issue(self, m, merger, kv_merger):
        engine = self._engine
        self._engine = fetch.Engine(**{**engine.to_json(), "read_beats": 2 * engine.read_beats})
        super()._issue(m, merger, kv_merger)
        self._engine = engine


def test_bench_sees_beats_without_room():
    with pytest.raises(BenchError, match="read FIFO|promised room"):
        run_bench(_NoCredit(ENGINE), "channel.cocotb_fetch", "blocked_lanes")
