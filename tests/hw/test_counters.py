"""hw.counters."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from symlight.hw.counters import Counters
from tests.benches.bench import BenchError, run_bench


@pytest.mark.parametrize("seed", [1, 2])
def test_counters(seed):
    assert run_bench(Counters(), "control.cocotb_counters", seed=seed) == 8


class _Broken(Counters):
    """Counters whose upper half is missing, and which keep their values at `clear`."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Counters()
        wiring.connect(m, wiring.flipped(self.add), inner.add)
        m.d.comb += [
            inner.index.eq(self.index),
            self.busy.eq(inner.busy),
            self.idle.eq(inner.idle),
            self.value.eq(inner.value[:32]),
        ]
        return m


@pytest.mark.parametrize(
    "name, reason", [("adds_up", "counter"), ("clear_parts_before_from_after", "tests failed")]
)
def test_bench_sees_broken_counters(name, reason):
    with pytest.raises(BenchError, match=reason):
        run_bench(_Broken(), "control.cocotb_counters", name)
