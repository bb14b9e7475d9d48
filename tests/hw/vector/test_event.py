"""hw.vector.event."""

import pytest
from amaranth.hdl import Module

from symlight.hw.vector.event import Eventise, PopCount, ScalarEvent, StepThreshold
from tests.benches.bench import BenchError, run_bench
from tests.benches.vector.vector_bench import SideBySide


def test_event():
    design = SideBySide(
        eventise=Eventise(4), scalar=ScalarEvent(4), step=StepThreshold(4), count=PopCount(32)
    )
    assert run_bench(design, "vector.cocotb_event", parameters={"count_lanes": 32}) == 12


def test_narrow_accumulators():
    design = SideBySide(eventise=Eventise(4, acc_bits=26))
    assert run_bench(design, "vector.cocotb_event", "eventise", parameters={"acc_bits": 26}) == 4


class _Strict(StepThreshold):
    """H(0) = 0."""

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o_valid.eq(self.i_valid)
        for lane in range(4):
            m.d.sync += self.bits[lane].eq(self.acc[lane] > self.threshold[lane])
        return m


def test_bench_sees_wrong_step():
    with pytest.raises(BenchError, match="step: bits is"):
        run_bench(
            SideBySide(step=_Strict(4), count=PopCount(16)),
            "vector.cocotb_event",
            "step_and",
            {"count_lanes": 16},
        )
