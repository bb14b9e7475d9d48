"""hw.channel.burst: merging and cutting, and that the bench can fail."""

import pytest

from symlight.hw.channel import burst
from symlight.hw.channel.burst import BurstMerger
from symlight.hw.config import Engine
from tests.benches.bench import BenchError, run_bench


@pytest.mark.parametrize("lanes, seed", [(16, 1), (64, 2)])
def test_burst_merger(lanes, seed):
    assert (
        run_bench(
            BurstMerger(Engine(channels=2, lanes=lanes)),
            "channel.cocotb_burst",
            parameters={"beat_bytes": lanes},
            seed=seed,
        )
        == 19
    )


def test_runs_alone():
    cutter = BurstMerger(Engine(channels=2, lanes=32), merges=False)
    parameters = {"beat_bytes": 32}
    assert run_bench(cutter, "channel.cocotb_burst", "same_beats|cuts_a_run", parameters) == 17


class _WidePage(BurstMerger):
    """A merger that takes pages for twice as long."""

    def __init__(self, engine):
        super().__init__(engine)
        self._page *= 2


def test_bench_sees_a_crossed_page():
    with pytest.raises(BenchError, match="AssertionError"):
        run_bench(
            _WidePage(Engine(channels=2)),
            "channel.cocotb_burst",
            "same_beats",
            parameters={"beat_bytes": 32},
        )


class _LongBurst(BurstMerger):
    """A merger whose own assertion must fire."""

    def _limit(self, address, bursts=0):
        return burst.Mux(address[0], 17, 16)


def test_assertion_sees_a_long_burst():
    with pytest.raises(BenchError, match="burst length"):
        run_bench(
            _LongBurst(Engine(channels=2)),
            "channel.cocotb_burst",
            "same_beats",
            parameters={"beat_bytes": 32},
        )
