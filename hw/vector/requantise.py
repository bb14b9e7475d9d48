"""Requantisation: accumulator times multiplier over a power of two, rounded and saturated to 18 bits.

acc, M ─► operands ─► two partial products ─► product ─► coarse shift ─► fine shift ─► round, saturate ─► y
"""

from amaranth.hdl import Cat, Module, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from symlight.model.ops import REQUANTISED_BITS

from ..lib.pipeline import ROUNDING_SHIFT, Pipeline, rounding_shift
from ..types import ACC_BITS

WIDE_PRODUCT = 3  # stages of a `wide_product`
SPLIT = 17  # low bits of a wide factor: unsigned, they fit the 18-bit side of a DSP


def wide_product(pipe: Pipeline, stage: int, wide: Value, factor: Value, name: str = "product") -> Value:
    """x - (x < 0) with x = wide * factor, at stage + 3.

    `wide` is signed with 18 to 34 bits, `factor` unsigned with up to 26 bits. Two multipliers of a DSP's
    size, with operand and product registers.
    """
    low, high, negative = partial_products(pipe, stage, wide, factor, name)
    x = Cat(low[:SPLIT], low[SPLIT:] + high).as_signed() - negative
    return pipe.reg(stage + 3, x[: len(wide) + len(factor)].as_signed(), name)


def partial_products(pipe: Pipeline, stage: int, wide: Value, factor: Value, name: str):
    """wide[:SPLIT] * factor, wide[SPLIT:] * factor, and wide < 0; see `wide_product`; at stage + 2."""
    wide = pipe.reg(stage + 1, wide, f"{name}_wide")
    factor = pipe.reg(stage + 1, factor, f"{name}_factor")
    low = pipe.reg(stage + 2, wide[:SPLIT] * factor, f"{name}_low")
    high = pipe.reg(stage + 2, wide[SPLIT:].as_signed() * factor, f"{name}_high")
    negative = pipe.reg(stage + 2, wide[-1], f"{name}_negative")
    return low, high, negative


class Requantise(wiring.Component):
    """y = sat(rnd(acc * multiplier, shift), 18) for each lane (`model.ops.requantise`).

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.
    acc_bits : int
        Bits of an accumulator, 18 to 34.

    Members
    -------
    i_valid, acc, multiplier, shift : In
        A word of accumulators with multipliers (15 bits) and shifts (1..47) of its elements.
    o_valid, y : Out
        The requantised word.
    """

    LATENCY = WIDE_PRODUCT + ROUNDING_SHIFT

    def __init__(self, lanes: int, *, acc_bits: int = ACC_BITS):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "acc": In(data.ArrayLayout(signed(acc_bits), lanes)),
                "multiplier": In(data.ArrayLayout(15, lanes)),
                "shift": In(data.ArrayLayout(6, lanes)),
                "o_valid": Out(1),
                "y": Out(data.ArrayLayout(signed(REQUANTISED_BITS), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        for lane in range(self._lanes):
            x = wide_product(pipe, 0, self.acc[lane], self.multiplier[lane], f"product{lane}")
            amount = pipe.reg(1, (self.shift[lane] - 1)[:6], f"amount{lane}")
            amount = pipe.carry(1, WIDE_PRODUCT, amount, f"amount{lane}")
            y = rounding_shift(pipe, WIDE_PRODUCT, x, amount, bits=REQUANTISED_BITS, name=f"y{lane}")
            m.d.comb += self.y[lane].eq(y)
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m
