"""hw.sequencer.sampler, and that its bench can fail."""

import pytest

from symlight.hw.sequencer.sampler import Sampler
from symlight.model import sampling
from tests.benches.bench import BenchError, run_bench


def run(kind=Sampler, test_filter=None, draws=40, seed=1, count=sampling.CANDIDATES):
    return run_bench(
        kind(candidates=count),
        "sequencer.cocotb_sampler",
        test_filter,
        parameters={"draws": draws, "count": count},
        seed=seed,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_sampler(seed):
    assert run(seed=seed) == 5


@pytest.mark.parametrize("count", [16, 32])
def test_a_sampler_of_another_size(count):
    assert run(count=count, test_filter="random_draws|time_of_a_draw", draws=20) == 4


class _Halved(Sampler):
    """Draws with half of the random word."""

    def _multiply(self, m, factor, then):
        super()._multiply(m, factor, then)
        if then == "DRAW":
            m.d.sync += self._factor.eq(factor >> 1)


def test_bench_sees_a_broken_sampler():
    with pytest.raises(BenchError, match="tests failed"):
        run(kind=_Halved, test_filter="random_draws", draws=20)
