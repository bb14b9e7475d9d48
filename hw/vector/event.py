"""Thresholds: signed integer events, binary steps, and counts of what is nonzero."""

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from symlight.model.ops import REQUANTISED_BITS

from ..lib.pipeline import ROUNDING_SHIFT, Pipeline, rounding_shift, saturate127
from ..types import ACC_BITS, SHIFT_BITS
from .requantise import Requantise


def _within(pipe: Pipeline, x, threshold, name: str):
    """abs(x) < threshold, as a register at stage 2: threshold - abs(x) > 0.

    In one sum: threshold + x where x is negative, else threshold + ~x, which is one less.
    """
    negative = pipe.reg(1, x[-1], f"{name}_negative")
    folded = (x.as_unsigned() ^ (~x[-1]).replicate(len(x))).as_signed()
    rest = pipe.reg(1, folded + threshold, f"{name}_rest")
    return pipe.reg(2, ~rest[-1] & (~negative | rest.any()), name)


class Eventise(wiring.Component):
    """e = 0 where abs(acc) < threshold, else sat127(requantise(acc)), for each lane (`model.ops.event`).

    Latency `LATENCY` cycles, a word a cycle, no back-pressure. The requantised numbers are also put out, so
    that one instance serves both; they come at `Requantise.LATENCY`.

    Parameters
    ----------
    lanes : int
        Elements of a word.
    acc_bits : int
        Bits of an accumulator.

    Members
    -------
    i_valid, acc, threshold, multiplier, shift : In
        A word of accumulators with the parameters of its elements (threshold: 27 bits).
    y_valid, y : Out
        The requantised word.
    o_valid, e : Out
        The word of events, one cycle after it.
    """

    LATENCY = Requantise.LATENCY + 1

    def __init__(self, lanes: int, *, acc_bits: int = ACC_BITS):
        self._lanes, self._acc_bits = lanes, acc_bits
        super().__init__(
            {
                "i_valid": In(1),
                "acc": In(data.ArrayLayout(signed(acc_bits), lanes)),
                "threshold": In(data.ArrayLayout(27, lanes)),
                "multiplier": In(data.ArrayLayout(15, lanes)),
                "shift": In(data.ArrayLayout(6, lanes)),
                "y_valid": Out(1),
                "y": Out(data.ArrayLayout(signed(REQUANTISED_BITS), lanes)),
                "o_valid": Out(1),
                "e": Out(data.ArrayLayout(signed(8), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.requantise = requantise = Requantise(self._lanes, acc_bits=self._acc_bits)
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        m.d.comb += [
            requantise.i_valid.eq(self.i_valid),
            requantise.acc.eq(self.acc),
            requantise.multiplier.eq(self.multiplier),
            requantise.shift.eq(self.shift),
            self.y_valid.eq(requantise.o_valid),
            self.y.eq(requantise.y),
            self.o_valid.eq(pipe.valid[-1]),
        ]
        for lane in range(self._lanes):
            within = _within(pipe, self.acc[lane], self.threshold[lane], f"within{lane}")
            within = pipe.carry(2, Requantise.LATENCY, within, f"within{lane}")
            e = pipe.reg(
                self.LATENCY, Mux(within, 0, saturate127(requantise.y[lane])).as_signed(), f"e{lane}"
            )
            m.d.comb += self.e[lane].eq(e)
        return m


class ScalarEvent(wiring.Component):
    """`model.ops.event` of a residual word with one parameter set for all lanes.

    Threshold 0 gives `model.ops.head_input`.

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, x : In
        A word of int16.
    threshold, multiplier, shift : In
        Scalars that come with the word (15, 15 and 6 bits; shift 1..47).
    o_valid, e : Out
        The word of events.
    """

    LATENCY = 3 + ROUNDING_SHIFT

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "x": In(data.ArrayLayout(signed(16), lanes)),
                "threshold": In(15),
                "multiplier": In(15),
                "shift": In(SHIFT_BITS),
                "o_valid": Out(1),
                "e": Out(data.ArrayLayout(signed(8), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        multiplier = pipe.reg(1, self.multiplier, "multiplier")
        amount = pipe.carry(1, 3, pipe.reg(1, (self.shift - 1)[:6], "amount"), "amount")
        for lane in range(self._lanes):
            x = pipe.reg(1, self.x[lane], f"x{lane}")
            negative = pipe.reg(2, x[-1], f"negative{lane}")
            product = pipe.reg(2, x * multiplier, f"product{lane}")
            product = pipe.reg(3, (product - negative)[: len(product)].as_signed(), f"product{lane}")
            within = _within(pipe, self.x[lane], self.threshold, f"within{lane}")
            within = pipe.carry(2, 5, within, f"within{lane}")
            e = rounding_shift(pipe, 3, product, amount, bits=8, symmetric=True, name=f"e{lane}", zero=within)
            m.d.comb += self.e[lane].eq(e)
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m


class StepThreshold(wiring.Component):
    """bits = H(acc - threshold) for each lane: 1 where acc >= threshold (`model.ops.step`).

    Latency 1 cycle, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, acc, threshold : In
        A word of accumulators with the thresholds of its elements, both signed 32 bits.
    o_valid, bits : Out
        The word of spikes.
    """

    LATENCY = 1

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "acc": In(data.ArrayLayout(signed(ACC_BITS), lanes)),
                "threshold": In(data.ArrayLayout(signed(ACC_BITS), lanes)),
                "o_valid": Out(1),
                "bits": Out(lanes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        for lane in range(self._lanes):
            m.d.comb += self.bits[lane].eq(pipe.reg(1, self.acc[lane] >= self.threshold[lane], f"bit{lane}"))
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m


class PopCount(wiring.Component):
    """How many elements of a word of int8 are not zero.

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, word : In
    o_valid, count : Out
        Count 0..lanes.
    """

    LATENCY = 2

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "word": In(data.ArrayLayout(8, lanes)),
                "o_valid": Out(1),
                "count": Out(range(lanes + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        active = [self.word[lane].any() for lane in range(self._lanes)]
        fours = [pipe.reg(1, sum(active[i : i + 4])[:3], "four") for i in range(0, self._lanes, 4)]
        while len(fours) > 1:
            fours = [sum(fours[i + 1 : i + 2], fours[i]) for i in range(0, len(fours), 2)]
        count = pipe.reg(2, fours[0][: len(self.count)], "count")
        m.d.comb += [self.count.eq(count), self.o_valid.eq(pipe.valid[-1])]
        return m
