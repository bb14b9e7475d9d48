"""The input encoder's leaky integrate-and-fire neurons."""

from amaranth.hdl import Cat, Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..lib.pipeline import Pipeline, half_down


class Lif(wiring.Component):
    """v = clamp(rnd(v * leak, 15) + x); s = H(v - threshold); v' = 0 where s (`model.ops.lif_step`).

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, x, v : In
        A word of the embedding and of the membrane, Q4.11.
    leak, threshold, clamp : In
        Scalars that do not change while words are in the pipeline: Q0.15, signed 16 bits and 15 bits Q4.11.
    o_valid, o, s : Out
        New membrane and spikes.
    """

    LATENCY = 5

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "x": In(data.ArrayLayout(signed(16), lanes)),
                "v": In(data.ArrayLayout(signed(16), lanes)),
                "leak": In(15),
                "threshold": In(signed(16)),
                "clamp": In(15),
                "o_valid": Out(1),
                "o": Out(data.ArrayLayout(signed(16), lanes)),
                "s": Out(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        leak = pipe.reg(1, self.leak, "leak")
        # What the ends of the range mean does not change.
        lowest = pipe.reg(4, -self.clamp, "lowest")
        high_spikes = pipe.reg(4, self.clamp >= self.threshold, "high_spikes")
        low_spikes = pipe.reg(4, -self.clamp >= self.threshold, "low_spikes")
        for lane in range(self._lanes):
            v = pipe.reg(1, self.v[lane], f"v{lane}")
            x = pipe.carry(0, 2, self.x[lane], f"x{lane}")
            product = pipe.reg(2, v * leak, f"product{lane}")
            half = pipe.reg(2, half_down(v, 15), f"half{lane}")
            moved = pipe.reg(3, (product + Cat(half, x).as_signed())[15:].as_signed(), f"moved{lane}")
            high = pipe.reg(4, moved > self.clamp, f"high{lane}")
            low = pipe.reg(4, moved + self.clamp < 0, f"low{lane}")
            over = pipe.reg(4, moved >= self.threshold, f"over{lane}")
            moved = pipe.reg(4, moved, f"moved{lane}")
            spike = Mux(high, high_spikes, Mux(low, low_spikes, over))
            clamped = Mux(high, self.clamp, Mux(low, lowest, moved))
            v_next = pipe.reg(5, Mux(spike, 0, clamped)[:16], f"v_next{lane}")
            m.d.comb += [self.o[lane].eq(v_next), self.s[lane].eq(pipe.reg(5, spike, f"s{lane}"))]
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m
