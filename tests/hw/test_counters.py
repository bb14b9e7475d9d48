"""hw.counters."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from bench import BenchError, run_bench

from symlight.hw.counters import ADD, Counters
from symlight.hw.interface import COUNTERS


@pytest.mark.parametrize("seed", [1, 2])
def test_counters(seed):
    assert run_bench(Counters(), "cocotb_counters", seed=seed) == 8


class _Broken(wiring.Component):
    """Counters whose upper half is missing, and which keep their values at `clear`."""

    add: In(stream.Signature(ADD))
    clear: In(1)
    busy: Out(1)
    idle: Out(1)
    index: In(range(COUNTERS))
    value: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Counters()
        wiring.connect(m, wiring.flipped(self.add), inner.add)
        m.d.comb += [
            inner.index.eq(self.index), self.busy.eq(inner.busy), self.idle.eq(inner.idle),
            self.value.eq(inner.value[:32]),
        ]
        return m


@pytest.mark.parametrize(
    "name, reason", [("adds_up", "counter"), ("clear_parts_before_from_after", "tests failed")]
)
def test_bench_sees_broken_counters(name, reason):
    with pytest.raises(BenchError, match=reason):
        run_bench(_Broken(), "cocotb_counters", name)
