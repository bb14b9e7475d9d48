"""The decay state and the residual sum."""

from amaranth.hdl import Cat, Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from symlight.model.config import PRE_BITS
from symlight.model.ops import REQUANTISED_BITS

from ..lib.pipeline import Pipeline, half_down, saturate


class DecayUpdate(wiring.Component):
    """h' = h + rnd((z - h) * beta, 16) with z = sat(y, 16), for each lane (`model.ops.decay_step`).

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, y, h, beta : In
        Requantised W_T s, decay state (Q3.12) and coefficient (Q0.16) of each element.
    o_valid, o : Out
        The new state.
    """

    LATENCY = 3

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "y": In(data.ArrayLayout(signed(REQUANTISED_BITS), lanes)),
                "h": In(data.ArrayLayout(signed(16), lanes)),
                "beta": In(data.ArrayLayout(16, lanes)),
                "o_valid": Out(1),
                "o": Out(data.ArrayLayout(signed(16), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        for lane in range(self._lanes):
            difference = pipe.reg(1, saturate(self.y[lane], 16) - self.h[lane], f"difference{lane}")
            beta = pipe.reg(1, self.beta[lane], f"beta{lane}")
            product = pipe.reg(2, difference * beta, f"product{lane}")
            half = pipe.reg(2, half_down(difference, 16), f"half{lane}")
            h = pipe.carry(0, 2, self.h[lane], f"h{lane}")
            moved = (product + Cat(half, h).as_signed())[16:32]
            m.d.comb += self.o[lane].eq(pipe.reg(3, moved, f"o{lane}"))
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m


class ResidualSum(wiring.Component):
    """pre = sat(2 * residual + y, PRE_BITS) for each lane (`model.ops.residual_sum`).

    Latency 1 cycle, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, y, residual : In
        Requantised branch (Q5.12) and residual stream (Q4.11).
    o_valid, pre : Out
        Q5.12.
    """

    LATENCY = 1

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "y": In(data.ArrayLayout(signed(REQUANTISED_BITS), lanes)),
                "residual": In(data.ArrayLayout(signed(16), lanes)),
                "o_valid": Out(1),
                "pre": Out(data.ArrayLayout(signed(PRE_BITS), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        for lane in range(self._lanes):
            total = self.y[lane] + (self.residual[lane] << 1)
            m.d.comb += self.pre[lane].eq(pipe.reg(1, saturate(total, PRE_BITS), f"pre{lane}"))
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m
