"""hw.channel.fetch, and that its bench can fail."""

import pytest
from bench import BenchError, run_bench
from fetch_bench import ENGINE

from symlight.hw.channel import fetch
from symlight.hw.channel.fetch import Fetch


@pytest.mark.parametrize("seed", [1, 2])
def test_fetch(seed):
    assert run_bench(Fetch(ENGINE), "cocotb_fetch", seed=seed) == 24


class _NoCredit(Fetch):
    """A fetch unit that forgets the size of its read FIFO."""

    def _issue(self, m, merger, kv_merger):
        engine = self._engine
        self._engine = fetch.Engine(**{**engine.to_json(), "read_beats": 2 * engine.read_beats})
        super()._issue(m, merger, kv_merger)
        self._engine = engine


def test_bench_sees_beats_without_room():
    with pytest.raises(BenchError, match="read FIFO|promised room"):
        run_bench(_NoCredit(ENGINE), "cocotb_fetch", "blocked_lanes")
