"""hw.vector.decay."""

import pytest
from amaranth.hdl import Module, Signal

from symlight.hw.vector.decay import DecayUpdate, ResidualSum
from tests.benches.bench import BenchError, run_bench
from tests.benches.vector.vector_bench import SideBySide


@pytest.mark.parametrize("seed", [1, 2])
def test_decay(seed):
    design = SideBySide(decay=DecayUpdate(4), residual=ResidualSum(4))
    assert run_bench(design, "vector.cocotb_decay", seed=seed) == 4


class _NoReset(DecayUpdate):
    """Correct, but a reset does not clear what is under way."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.update = inner = DecayUpdate(4)
        valid = [self.i_valid, *(Signal(name=f"valid{k}", reset_less=True) for k in range(3))]
        m.d.sync += [after.eq(before) for before, after in zip(valid, valid[1:])]
        m.d.comb += [
            inner.i_valid.eq(self.i_valid),
            inner.y.eq(self.y),
            inner.h.eq(self.h),
            inner.beta.eq(self.beta),
            self.o.eq(inner.o),
            self.o_valid.eq(valid[-1]),
        ]
        return m


def test_bench_sees_missing_reset():
    with pytest.raises(BenchError, match="decay: o_valid is 1 in cycle"):
        run_bench(
            SideBySide(decay=_NoReset(4), residual=ResidualSum(4)),
            "vector.cocotb_decay",
            "idle=never",
        )
