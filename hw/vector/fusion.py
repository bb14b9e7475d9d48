"""Fusion of attention and decay: the division of the attention sums, and the gated mix of both paths.

den ─► Reciprocal ─► align, recip ─┐
num ───────────────────────────────┴─► o = num / den ─► o * G_o + h * G_h ─► shift, round, saturate ─► m
"""

from amaranth.hdl import C, Cat, Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from symlight.model.ops import DEN_BITS, OUTPUT_FRAC, RECIPROCAL_FRAC

from ..lib.pipeline import ROUNDING_SHIFT, Pipeline, highest, rounding_shift
from ..types import ACC_BITS, SHIFT_BITS
from .requantise import SPLIT, WIDE_PRODUCT, partial_products

RECIPROCAL_BITS = RECIPROCAL_FRAC + 2  # recip is at most 2^17
ALIGN_BITS = 5
_FINE = 3  # low bits of the alignment
QUOTIENT_SHIFT = DEN_BITS + RECIPROCAL_FRAC - OUTPUT_FRAC
QUOTIENT_BITS = ACC_BITS + RECIPROCAL_BITS - 1  # of a numerator of less than 31 bits times a reciprocal


class Reciprocal(wiring.Component):
    """recip = floor(2^(n + 16) / den) with n = bit length of den, 0 where den is 0 (`model.ops.divide`).

    den is shifted to D in [2^23, 2^24); then recip = floor(2^40 / D). Its leading bit is 2^16, or 2^17 for a
    power of two; the others come from a restoring division of radix 4, two bits a stage.

    Latency `LATENCY` cycles, a number a cycle, no back-pressure.

    Members
    -------
    i_valid, den : In
    o_valid, align, recip : Out
        24 - n, the left shift that puts the leading bit on top (any where den is 0), and reciprocal.
    """

    LATENCY = 3 + RECIPROCAL_FRAC // 2

    def __init__(self):
        super().__init__(
            {
                "i_valid": In(1),
                "den": In(DEN_BITS),
                "o_valid": Out(1),
                "align": Out(ALIGN_BITS),
                "recip": Out(RECIPROCAL_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        den = pipe.reg(1, self.den, "den")
        # With the leading bit's index counted from the low end of 2^ALIGN_BITS bits, the shift is its
        # complement.
        padding = C(0, (1 << ALIGN_BITS) - DEN_BITS)
        align = pipe.reg(1, ~highest(Cat(padding, self.den)), "align")
        aligned = (den << align)[:DEN_BITS]
        divisor = pipe.reg(2, aligned, "divisor")
        remainder = pipe.reg(2, (-aligned)[:DEN_BITS], "remainder")  # 2^24 - D, behind the leading bit
        power = pipe.carry(2, self.LATENCY - 1, divisor[:-1] == 0, "power")
        triple = pipe.reg(3, divisor + (divisor << 1), "triple")
        divisor = pipe.reg(3, divisor, "divisor")
        remainder = pipe.reg(3, remainder, "remainder")
        quotient = C(0, 0)
        for stage in range(4, self.LATENCY + 1):
            digit, remainder = _divide_step(remainder, divisor, triple)
            quotient = Cat(digit, quotient)
            if stage < self.LATENCY:
                triple = pipe.reg(stage, triple, "triple")
                divisor = pipe.reg(stage, divisor, "divisor")
                remainder = pipe.reg(stage, remainder, "remainder")
                quotient = pipe.reg(stage, quotient, "quotient")
        # The divisor's top bit is clear only where den is 0. A power of two yields nothing but ones.
        some = divisor[-1]
        recip = Cat(quotient & (some & ~power).replicate(RECIPROCAL_FRAC), some & ~power, some & power)
        m.d.comb += [
            self.align.eq(pipe.carry(1, self.LATENCY, align, "align")),
            self.recip.eq(pipe.reg(self.LATENCY, recip, "recip")),
            self.o_valid.eq(pipe.valid[-1]),
        ]
        return m


def _divide_step(remainder, divisor, triple):
    """(digit 0..3, new remainder) of 4 * remainder over the divisor; all three differences side by side."""
    scaled = Cat(C(0, 2), remainder)
    rests = [scaled, scaled - divisor, scaled - (divisor << 1), scaled - triple]
    fits = [~rest[-1] for rest in rests[1:]]
    digit = Cat(fits[2] | (fits[0] & ~fits[1]), fits[1])
    low = Mux(fits[0], rests[1], rests[0])
    high = Mux(fits[2], rests[3], rests[2])
    return digit, Mux(fits[1], high, low)[:DEN_BITS]


class MixFusion(wiring.Component):
    """m = sat127(rnd(o * G_o + h * G_h, sh)) with o = num / den, 0 where abs(m) < T, for each lane.

    `model.ops.divide` and `model.ops.mix`.

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, num, h : In
        Attention numerators (32 bits, at most 127 * den) and decay state of a word.
    align, recip : In
        Of `Reciprocal` for the word's denominator, with the word.
    gain_o, gain_h, shift : In
        Scalars that do not change while words are in the pipeline: 15, 15 and 6 bits (shift 1..47).
    threshold : In
        T, such a scalar of 7 bits; 0: none.
    o_valid, m : Out
        The word of int8.
    """

    LATENCY = WIDE_PRODUCT + 3 + ROUNDING_SHIFT

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "num": In(data.ArrayLayout(signed(ACC_BITS), lanes)),
                "h": In(data.ArrayLayout(signed(16), lanes)),
                "align": In(ALIGN_BITS),
                "recip": In(RECIPROCAL_BITS),
                "gain_o": In(15),
                "gain_h": In(15),
                "shift": In(SHIFT_BITS),
                "threshold": In(7),
                "o_valid": Out(1),
                "m": Out(data.ArrayLayout(signed(8), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        gains, summed = (
            WIDE_PRODUCT + 1,
            WIDE_PRODUCT + 3,
        )  # stages of the second multiplication's operands, of the sum
        gain_o = pipe.reg(gains, self.gain_o, "gain_o")
        gain_h = pipe.reg(gains, self.gain_h, "gain_h")
        amount = pipe.reg(summed, (self.shift - 1)[:6], "amount")
        # The numerators are shifted by multiples of 8 alone; the reciprocal, which all share, by the rest.
        coarse = Cat(C(0, _FINE), self.align[_FINE:])
        recip = (self.recip << self.align[:_FINE])[: RECIPROCAL_BITS + (1 << _FINE) - 1]
        least = pipe.reg(summed + 2, self.threshold, "least")
        for lane in range(self._lanes):
            aligned = (self.num[lane] << coarse)[:ACC_BITS].as_signed()
            o = self._quotient(pipe, aligned, recip, f"quotient{lane}")
            h = pipe.carry(0, gains, self.h[lane], f"h{lane}")
            part_o = pipe.reg(gains + 1, o * gain_o, f"part_o{lane}")
            part_h = pipe.reg(gains + 1, h * gain_h, f"part_h{lane}")
            total = pipe.reg(summed, part_o + part_h, f"total{lane}")
            biased = (total - total[-1])[: len(total)].as_signed()
            mixed = rounding_shift(
                pipe, summed, biased, amount, bits=8, symmetric=True, least=least, name=f"mixed{lane}"
            )
            m.d.comb += self.m[lane].eq(mixed)
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m

    def _quotient(self, pipe: Pipeline, aligned, recip, name: str):
        """rnd(x, QUOTIENT_SHIFT) with x = aligned * recip, at stage 4.

        It is ((x - (x < 0)) >> 33) + 1 >> 1 with a shift of 34; the 1 is taken from what lies above bit 33
        only where all below is 0.
        """
        low, high, negative = partial_products(pipe, 0, aligned, recip, name)
        upper = pipe.reg(3, (low[SPLIT:] + high)[: QUOTIENT_BITS - SPLIT].as_signed(), f"{name}_upper")
        some = pipe.reg(3, low[:SPLIT].any(), f"{name}_some")
        negative = pipe.reg(3, negative, f"{name}_negative")
        cut = QUOTIENT_SHIFT - 1 - SPLIT
        up = ~negative | some | upper[:cut].any()
        return pipe.reg(4, (upper[cut:].as_signed() + up)[1:17].as_signed(), f"{name}_o")
