"""hw.channel.logits: the candidate list, and that its bench can fail."""

import pytest
from amaranth.hdl import Cat

from symlight.hw.channel.logits import CandidateList
from tests.benches.bench import BenchError, run_bench


def run(count=16, kind=CandidateList, test_filter=None, seed=1):
    component = kind(count=count)
    return run_bench(
        component, "channel.cocotb_candidates", test_filter, parameters={"candidates": count}, seed=seed
    )


@pytest.mark.parametrize("count", [4, 16])
def test_candidates(count):
    assert run(count) == 6


class _DropsAll(CandidateList):
    """Takes no row for one that is larger than those it has."""

    def _key(self):
        return super()._key() & 0xFFFF


class _LateTies(CandidateList):
    """Takes the last of equal rows for the larger one."""

    def _key(self):
        return Cat(self.id, super()._key()[16:])


@pytest.mark.parametrize("kind", [_DropsAll, _LateTies])
def test_bench_sees_a_broken_list(kind):
    with pytest.raises(BenchError, match="failed"):
        run(kind=kind, test_filter="random_operations")
