"""Paths of the vector unit, and the unit itself, with one mistake each: the benches must see every one of
them."""

import functools

from amaranth.hdl import Module
from amaranth.lib import data

from symlight.hw.lib.pipeline import Pipeline, saturate
from symlight.hw.types import ScaleParameter
from symlight.hw.vector.decay import DecayUpdate, ResidualSum
from symlight.hw.vector.residual import ResidualPath
from symlight.hw.vector.session_state import DecayPath
from symlight.hw.vector.unit import VectorUnit
from tests.benches.bench_build import ports_only, to_verilog
from tests.benches.vector.paths_bench import ENGINE, UNIT_ENGINE
from tests.benches.vector.vector_bench import SideBySide


class _Truncated(DecayUpdate):
    """Rounds what moves down."""

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        for lane in range(self._lanes):
            difference = saturate(self.y[lane], 16) - self.h[lane]
            moved = self.h[lane] + ((difference * self.beta[lane]) >> 16)
            m.d.comb += self.o[lane].eq(pipe.carry(0, 3, moved[:16]))
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m


class _Half(ResidualSum):
    """Adds the residual once."""

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, 1)
        for lane in range(self._lanes):
            m.d.comb += self.pre[lane].eq(pipe.reg(1, saturate(self.y[lane] + self.residual[lane], 18)))
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m


class TruncatedDecay(DecayPath):
    def __init__(self, engine):
        super().__init__(engine)
        self._update = _Truncated(engine.lanes)


class HalfResidual(ResidualPath):
    def __init__(self, engine):
        super().__init__(engine)
        self._sum = _Half(engine.lanes)


class LaterCoefficients(VectorUnit):
    """Takes a decay word's coefficients when the word is requantised; by then the parameters are those of a
    later one."""

    def _parameters(self, m):
        self._word = super()._parameters(m)
        return self._word

    def _decay(self, m, y_valid, y, y_tag, y_parameter):
        layout = data.ArrayLayout(ScaleParameter, self._engine.lanes)
        super()._decay(m, y_valid, y, y_tag, data.View(layout, self._word.as_value()))


@functools.cache
def broken_paths() -> str:
    return ports_only(to_verilog(SideBySide(residual=HalfResidual(ENGINE), decay=TruncatedDecay(ENGINE))))


@functools.cache
def broken_unit() -> str:
    return ports_only(to_verilog(SideBySide(unit=LaterCoefficients(UNIT_ENGINE, drain_latency=5))))
