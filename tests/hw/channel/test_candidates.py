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


class _KeepsOld(CandidateList):
    """Does not forget the rows of the operation before."""

    def _store(self, m, place, key, every=False):
        super()._store(m, place, key, every)
        if every:
            m.d.comb += self._numbers.write.eq(0)


class _LateTies(CandidateList):
    """Takes the last of equal rows for the larger one."""

    def _key(self):
        return Cat(self.id, super()._key()[16:])


@pytest.mark.parametrize("kind", [_KeepsOld, _LateTies])
def test_bench_sees_a_broken_list(kind):
    with pytest.raises(BenchError, match="failed"):
        run(kind=kind, test_filter="random_operations")
