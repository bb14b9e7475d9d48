"""Layer normalisation: statistics of a vector as its words pass, then the normalisation of each word.

    pre ─► squares, adder trees ─► S, SS ─► mean ─► Q ─► exponent, index ─► RSQRT ─► mean, e, r
    pre, mean, e, r ─► (pre - mean) * r >> (e - 1) ─► * gamma >> gamma_shift, + beta ─► y

The formulas are in docs/arithmetic.md, section 5.
"""

from amaranth.hdl import C, Cat, Module, Mux, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from symlight.model.config import PRE_BITS
from symlight.model.ops import NORMALISED_BITS, rsqrt_table

from ..lib.pipeline import ROUNDING_SHIFT, Pipeline, adder_tree, highest, rounding_shift, tree_stages

WIDTH_BITS = 12  # a vector has up to 2048 elements
SPREAD_BITS = 48  # width of Q
EXPONENT_BITS = 5  # of its root
_SPLIT = 17  # low bits of a wide factor: they fit the 18-bit side of a DSP


class LayerNormStatistics(wiring.Component):
    """Mean, exponent and reciprocal root of a vector (`model.ops.layer_norm_stats`).

    Latency `LATENCY` cycles from the last word to `o_valid`; a word a cycle, gaps allowed, no back-pressure.
    A vector may begin in the cycle after the last word of another.

    Attributes
    ----------
    SOON : int
        Cycles from `soon` to `o_valid`.

    Parameters
    ----------
    lanes : int
        Elements of a word.
    max_words : int
        Words of the longest vector.

    Members
    -------
    i_valid, i_first, i_last, pre : In
        Words of a vector; elements beyond its width are 0.
    width, inv_width, epsilon : In
        Constants of the vector: D, rounded 2^32 / D, and the offset of Q (at least 16). They do not change
        from the last word to `o_valid`.
    soon : Out
        Pulse: `o_valid` follows in `SOON` cycles.
    o_valid : Out
        The results of a vector are there; they stay until the next `o_valid`.
    mean, e, r : Out
    """

    def __init__(self, lanes: int, max_words: int):
        self._lanes = lanes
        self._elements = lanes * max_words
        super().__init__(
            {
                "i_valid": In(1),
                "i_first": In(1),
                "i_last": In(1),
                "pre": In(data.ArrayLayout(signed(PRE_BITS), lanes)),
                "width": In(WIDTH_BITS),
                "inv_width": In(33),
                "epsilon": In(signed(32)),
                "soon": Out(1),
                "o_valid": Out(1),
                "mean": Out(signed(PRE_BITS)),
                "e": Out(EXPONENT_BITS),
                "r": Out(16),
            }
        )

    SOON = 3

    @property
    def LATENCY(self) -> int:
        return _Totals.latency(self._lanes) + _Root.LATENCY

    def elaborate(self, platform):
        m = Module()
        m.submodules.totals = totals = _Totals(self._lanes, self._elements)
        m.submodules.root = root = _Root(self._elements)
        m.d.comb += [
            totals.i_valid.eq(self.i_valid),
            totals.i_first.eq(self.i_first),
            totals.i_last.eq(self.i_last),
            totals.pre.eq(self.pre),
            root.i_valid.eq(totals.o_valid),
            root.total.eq(totals.total),
            root.squares.eq(totals.squares),
            root.width.eq(self.width),
            root.inv_width.eq(self.inv_width),
            root.epsilon.eq(self.epsilon),
            self.soon.eq(root.soon),
            self.o_valid.eq(root.o_valid),
            self.mean.eq(root.mean),
            self.e.eq(root.e),
            self.r.eq(root.r),
        ]
        return m


def _sum_bits(elements: int) -> int:
    """Width of S: each element is at least -2^17."""
    return PRE_BITS + ceil_log2(elements)


def _square_bits(elements: int) -> int:
    """Width of SS: each square is at most 2^34."""
    return 2 * PRE_BITS - 1 + ceil_log2(elements)


class _Totals(wiring.Component):
    """S and SS of a vector, for one cycle, `latency(lanes)` cycles behind its last word."""

    def __init__(self, lanes: int, elements: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "i_first": In(1),
                "i_last": In(1),
                "pre": In(data.ArrayLayout(signed(PRE_BITS), lanes)),
                "o_valid": Out(1),
                "total": Out(signed(_sum_bits(elements))),
                "squares": Out(_square_bits(elements)),
            }
        )

    @staticmethod
    def latency(lanes: int) -> int:
        return 2 + tree_stages(lanes) + 1

    def elaborate(self, platform):
        m = Module()
        stages = self.latency(self._lanes)
        pipe = Pipeline(m, self.i_valid, stages)
        pre = [pipe.reg(1, element, "pre") for element in self.pre]
        squares = [pipe.reg(2, (element * element)[: 2 * PRE_BITS - 1], "square") for element in pre]
        word_squares = adder_tree(pipe, 2, squares, self.squares.shape(), "squares")
        word_total = adder_tree(pipe, 1, pre, self.total.shape(), "total")
        word_total = pipe.carry(stages - 2, stages - 1, word_total, "total")
        first = pipe.carry(0, stages - 1, self.i_first, "first")
        last = pipe.carry(0, stages, self.i_last, "last")
        with m.If(pipe.valid[stages - 1]):
            m.d.sync += [
                self.total.eq(Mux(first, 0, self.total) + word_total),
                self.squares.eq(Mux(first, 0, self.squares) + word_squares),
            ]
        m.d.comb += self.o_valid.eq(pipe.valid[stages] & last)
        return m


class _Root(wiring.Component):
    """Mean, exponent and reciprocal root of S and SS; fully pipelined."""

    LATENCY = 11
    _MEAN, _SPREAD = 3, 7  # stages of the mean and of Q

    def __init__(self, elements: int):
        super().__init__(
            {
                "i_valid": In(1),
                "total": In(signed(_sum_bits(elements))),
                "squares": In(_square_bits(elements)),
                "width": In(WIDTH_BITS),
                "inv_width": In(33),
                "epsilon": In(signed(32)),
                "soon": Out(1),
                "o_valid": Out(1),
                "mean": Out(signed(PRE_BITS)),
                "e": Out(EXPONENT_BITS),
                "r": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        mean = self._mean(pipe)
        spread = self._spread(pipe, mean)
        exponent = highest([spread[i : i + 2].any() for i in range(0, SPREAD_BITS, 2)])
        exponent = pipe.reg(self._SPREAD + 1, exponent, "exponent")
        spread = pipe.carry(self._SPREAD, self._SPREAD + 1, spread, "spread")
        # The eight bits from bit 2 e + 1 down: Q << 6 >> 2 e.
        index = pipe.reg(self._SPREAD + 2, (Cat(C(0, 6), spread) >> Cat(C(0, 1), exponent))[:8], "index")
        m.submodules.table = table = Memory(shape=16, depth=256, init=[int(entry) for entry in rsqrt_table()])
        read = table.read_port()
        m.d.comb += [read.en.eq(pipe.valid[self._SPREAD + 2]), read.addr.eq(index)]
        m.d.comb += [
            self.soon.eq(pipe.valid[self.LATENCY - LayerNormStatistics.SOON]),
            self.o_valid.eq(pipe.valid[-1]),
            self.r.eq(pipe.reg(self.LATENCY, read.data, "rsqrt")),
            self.mean.eq(pipe.carry(self._MEAN, self.LATENCY, mean, "mean")),
            self.e.eq(pipe.carry(self._SPREAD + 1, self.LATENCY, exponent, "exponent")),
        ]
        return m

    def _mean(self, pipe: Pipeline):
        """rnd(S * inv_width, 32) at stage 3, from four partial products."""
        total = self.total
        low, high = total[:_SPLIT], total[_SPLIT:].as_signed()
        inv_low, inv_high = self.inv_width[:_SPLIT], self.inv_width[_SPLIT:]
        low_low = pipe.reg(1, low * inv_low, "low_low")
        low_high = pipe.reg(1, low * inv_high, "low_high")
        high_low = pipe.reg(1, high * inv_low, "high_low")
        high_high = pipe.reg(1, high * inv_high, "high_high")
        negative = pipe.reg(1, total[-1], "negative")
        half = 1 << (31 - _SPLIT)  # rounding, in units of the cross products
        cross = pipe.reg(2, low_high + high_low + half, "cross")
        outer = pipe.reg(2, Cat(low_low, high_high).as_signed() - negative, "outer")
        mean = ((outer >> _SPLIT) + cross)[32 - _SPLIT :][:PRE_BITS]
        return pipe.reg(self._MEAN, mean.as_signed(), "mean")

    def _spread(self, pipe: Pipeline, mean):
        """Q = SS + epsilon - mean * (2 S - D * mean) at stage 7."""
        total = pipe.carry(0, self._MEAN + 1, self.total, "total")
        squares = pipe.reg(1, (self.squares + self.epsilon)[:SPREAD_BITS], "squares")
        squares = pipe.carry(1, self._SPREAD - 1, squares, "squares")
        scaled = pipe.reg(self._MEAN + 1, mean * self.width, "scaled")
        mean = pipe.carry(self._MEAN, self._MEAN + 2, mean, "mean")
        rest = pipe.reg(self._MEAN + 2, ((total << 1) - scaled)[: len(total) + 1].as_signed(), "rest")
        low = pipe.reg(self._MEAN + 3, mean * rest[:_SPLIT], "low")
        high = pipe.reg(self._MEAN + 3, mean * rest[_SPLIT:].as_signed(), "high")
        return pipe.reg(self._SPREAD, (squares - low - (high << _SPLIT))[:SPREAD_BITS], "spread")


class LayerNormNormalise(wiring.Component):
    """y = sat(rnd(n * gamma, gamma_shift) + beta, 16) for each lane: the rest of `model.ops.layer_norm`.

    n = sat(rnd((pre - mean) * r, e - 1), 19). Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, pre, gamma, beta : In
        A word with the parameters of its elements.
    mean, e, r, gamma_shift : In
        Scalars that do not change while words of the vector are in the pipeline; e at least 2, gamma_shift
        1..31.
    o_valid, y : Out
        int16 Q4.11.
    """

    _NORMALISED = 3 + ROUNDING_SHIFT  # stage of n
    LATENCY = _NORMALISED + 2 + ROUNDING_SHIFT

    def __init__(self, lanes: int):
        self._lanes = lanes
        super().__init__(
            {
                "i_valid": In(1),
                "pre": In(data.ArrayLayout(signed(PRE_BITS), lanes)),
                "gamma": In(data.ArrayLayout(signed(16), lanes)),
                "beta": In(data.ArrayLayout(signed(16), lanes)),
                "mean": In(signed(PRE_BITS)),
                "e": In(EXPONENT_BITS),
                "r": In(16),
                "gamma_shift": In(5),
                "o_valid": Out(1),
                "y": Out(data.ArrayLayout(signed(16), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        normalised = self._NORMALISED
        rsqrt = pipe.reg(1, self.r, "rsqrt")
        amount = pipe.reg(3, (self.e - 2)[:5], "amount")
        gamma_amount = pipe.reg(normalised + 2, (self.gamma_shift - 1)[:5], "gamma_amount")
        for lane in range(self._lanes):
            offset = pipe.reg(1, self.pre[lane] - self.mean, f"offset{lane}")
            x = _product(pipe, 1, offset, rsqrt, f"scaled{lane}")
            n = rounding_shift(pipe, 3, x, amount, bits=NORMALISED_BITS, name=f"n{lane}")
            gamma = pipe.carry(0, normalised, self.gamma[lane], f"gamma{lane}")
            beta = pipe.carry(0, self.LATENCY - 1, self.beta[lane], f"beta{lane}")
            x = _product(pipe, normalised, n, gamma, f"product{lane}")
            y = rounding_shift(pipe, normalised + 2, x, gamma_amount, bits=16, addend=beta, name=f"y{lane}")
            m.d.comb += self.y[lane].eq(y)
        m.d.comb += self.o_valid.eq(pipe.valid[-1])
        return m


def _product(pipe: Pipeline, stage: int, a, b, name: str):
    """x - (x < 0) with x = a * b, at stage + 2, of registers a and b of `stage`."""
    negative = a[-1] ^ b[-1] if b.shape().signed else a[-1]
    negative = pipe.reg(stage + 1, negative, f"{name}_negative")
    x = pipe.reg(stage + 1, a * b, name)
    return pipe.reg(stage + 2, (x - negative)[: len(x)].as_signed(), name)
