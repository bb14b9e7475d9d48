"""Building blocks of the vector unit's pipelines: staged registers, rounding shifts, adder trees.

All pipelines here have a fixed latency and no back-pressure. A word enters with a valid bit; stage k holds
its registers k cycles later, and they load only when a word enters the stage, so that an idle pipeline does
not toggle.
"""

from amaranth.hdl import C, Cat, Module, Mux, Shape, Signal, Value, signed


class Pipeline:
    """Registers of a pipeline in `m`, by stage; stage 0 is the input.

    Parameters
    ----------
    m : Module
        Where the registers go.
    i_valid : Value
        A word is at stage 0.
    stages : int
        Number of stages, the latency from stage 0 to the last register.

    Attributes
    ----------
    valid : list of Value
        `valid[k]`: a word is at stage k. Cleared by reset; the data registers need none.
    """

    def __init__(self, m: Module, i_valid: Value, stages: int):
        self.m = m
        self.stages = stages
        self.valid = [i_valid, *(Signal(name=f"valid{k}") for k in range(1, stages + 1))]
        for before, after in zip(self.valid, self.valid[1:]):
            m.d.sync += after.eq(before)

    def reg(self, stage: int, value, name: str = "stage") -> Signal:
        """A register at `stage` that loads `value` (of stage - 1) with each word."""
        value = Value.cast(value)
        register = Signal(value.shape(), name=f"{name}_{stage}", reset_less=True)
        with self.m.If(self.valid[stage - 1]):
            self.m.d.sync += register.eq(value)
        return register

    def carry(self, begin: int, end: int, value, name: str = "carry") -> Value:
        """`value` of stage `begin` as of stage `end`."""
        for stage in range(begin + 1, end + 1):
            value = self.reg(stage, value, name)
        return value


class FreeRunningPipeline:
    """Registers of a pipeline in `m` that load in every cycle: for values that rest when nothing is there."""

    def __init__(self, m: Module):
        self.m = m

    def reg(self, stage: int, value, name: str = "stage", *, reset_less: bool = True) -> Signal:
        """A register at `stage` that loads `value` (of stage - 1)."""
        value = Value.cast(value)
        register = Signal(value.shape(), name=f"{name}_{stage}", reset_less=reset_less)
        self.m.d.sync += register.eq(value)
        return register


def saturate(value: Value, bits: int) -> Value:
    """Clamp a signed value to the signed range of `bits` bits."""
    if len(value) <= bits:
        return value
    sign = value[-1]
    top = value[bits - 1 :]
    return Mux(top.any() & ~top.all(), _limit(sign, bits), value[:bits].as_signed())


def saturate127(value: Value) -> Value:
    """Clamp a signed value of at least 9 bits to [-127, 127]."""
    sign = value[-1]
    top = value[7:]
    minimum = sign & ~value[:7].any()  # -128 when nothing overflows
    return Mux((top.any() & ~top.all()) | minimum, _limit(sign, 8, symmetric=True), value[:8].as_signed())


def _limit(sign: Value, bits: int, symmetric: bool = False) -> Value:
    """The end of the range that a value of this sign has overflown."""
    high = (1 << (bits - 1)) - 1
    return Mux(sign, C(-high if symmetric else -high - 1, signed(bits)), C(high, signed(bits)))


def half_down(value: Value, shift: int) -> Value:
    """What `rnd(x, shift)` adds to x before a fixed arithmetic shift: 2^(shift-1) - (x < 0).

    `value` has the sign of x; where x is 0 it does not matter. As an unsigned number of `shift` bits it fills
    the low bits of another addend, so rounding then costs no adder of its own.
    """
    return Cat(value[-1].replicate(shift - 1), ~value[-1])


ROUNDING_SHIFT = 3  # stages of a `rounding_shift`


def rounding_shift(
    pipe: Pipeline,
    stage: int,
    x: Value,
    amount: Value,
    *,
    bits: int,
    symmetric: bool = False,
    addend: Value | None = None,
    zero: Value | None = None,
    least: Value | None = None,
    name: str = "rounded",
) -> Value:
    """`rnd(x, s)` with a variable s, saturated, as a signed register of `bits` bits at stage + 3.

    The caller subtracts 1 from a negative x beforehand (x' = x - (x < 0); at x = 0 either will do), then
    rnd(x, s) = ((x' >> (s - 1)) + 1) >> 1. The first stage shifts by multiples of 4, the second by the rest
    and detects what cannot fit, the third rounds and saturates.

    Parameters
    ----------
    x, amount : Value
        x', signed, and s - 1, unsigned; both of `stage`.
    symmetric : bool
        Saturate to [-127, 127]; `bits` is 8.
    addend : Value or None
        Signed value of stage + 2, at most `bits` bits, added to the rounded number before the saturation.
    zero : Value or None
        Bit of stage + 2 that replaces the result by 0.
    least : Value or None
        Unsigned value of stage + 2, below 2^(bits - 1): results of a smaller magnitude become 0. Without
        `addend`.
    """
    assert least is None or addend is None
    assert not symmetric or bits == 8
    # A number that overflows the kept bits must overflow the result too, whatever the addend.
    kept_bits = bits + 1 if addend is None else bits + 2
    coarse = pipe.reg(stage + 1, x >> Cat(C(0, 2), amount[2:]), f"{name}_coarse")
    rest = pipe.reg(stage + 1, amount[:2], f"{name}_rest")
    kept = pipe.reg(stage + 2, (coarse >> rest)[:kept_bits].as_signed(), f"{name}_kept")
    # What cannot fit is seen before the second shift, which then moves no more than it must.
    differs = (coarse.as_unsigned() ^ coarse[-1].replicate(len(coarse)))[kept_bits - 1 :]
    near = (bit & (rest <= place) for place, bit in enumerate(differs[:3]))
    over = pipe.reg(stage + 2, Cat(*near, differs[3:]).any(), f"{name}_over")
    sign = pipe.reg(stage + 2, coarse[-1], f"{name}_sign")
    half = C(1, signed(2)) if addend is None else Cat(C(1, 1), addend).as_signed()
    rounded = (kept + half)[1:].as_signed()
    inside = saturate127(rounded) if symmetric else saturate(rounded, bits)
    result = Mux(over, _limit(sign, bits, symmetric), inside)
    if zero is not None:
        result = Mux(zero, 0, result)
    if least is not None:  # rounded = (kept + 1) >> 1, so the comparison need not wait for the rounding
        small = (kept < (least << 1) - 1) & (kept > -(least << 1))
        result = Mux(small & ~over, 0, result)
    return pipe.reg(stage + 3, result, name)


def highest(bits) -> Value:
    """Index of the highest bit that is set, 0 if there is none, as a tree of multiplexers."""
    nodes = [(bit, C(0, 0)) for bit in bits]
    while len(nodes) > 1:
        if len(nodes) % 2:
            nodes.append((C(0, 1), nodes[0][1]))
        nodes = [
            (low_any | high_any, Cat(Mux(high_any, high, low), high_any))
            for (low_any, low), (high_any, high) in zip(nodes[::2], nodes[1::2])
        ]
    return nodes[0][1]


def tree_stages(count: int) -> int:
    """Stages of an `adder_tree` of `count` terms."""
    stages = 1
    while 4**stages < count:
        stages += 1
    return stages


def adder_tree(pipe: Pipeline, stage: int, terms, shape: Shape, name: str = "tree") -> Value:
    """The sum of `terms` (of `stage`) as a register of `shape`, `tree_stages(len(terms))` stages later.

    Two levels of adders between registers: at most four terms are added in a stage. Sums are cut to `shape`,
    which is exact when the whole sum fits.
    """
    for level in range(stage + 1, stage + 1 + tree_stages(len(terms))):
        terms = adder_stage(pipe, level, terms, shape, name)
    return terms[0]


def adder_stage(
    pipe: "Pipeline | FreeRunningPipeline", stage: int, terms, shape: Shape, name: str = "tree"
) -> list[Signal]:
    """Sums of up to four of `terms` each, as registers of `stage`."""
    return [pipe.reg(stage, _sum(terms[i : i + 4], shape), name) for i in range(0, len(terms), 4)]


def carry_save(m: Module, terms, left: int) -> list[Value]:
    """At most `left` >= 2 words with the sum of `terms`, words of one width, modulo 2 to that width.

    No carry runs: a level of logic of six inputs turns six words into three, and what remains into two or
    three. Eight terms become two in three levels.
    """
    while len(terms) > left:
        terms = [word for i in range(0, len(terms), 6) for word in _compress(m, terms[i : i + 6])]
    return terms


def _compress(m: Module, terms) -> list[Value]:
    """Up to six words as up to three: in every position the number of ones among them, in binary."""
    if len(terms) < 3:
        return list(terms)
    width = len(terms[0])

    def full_adder(a, b, c):
        ones, twos = Signal(width, name="ones"), Signal(width, name="twos")
        m.d.comb += [ones.eq(a ^ b ^ c), twos.eq((a & b) | (c & (a | b)))]
        return ones, twos

    ones, twos = full_adder(*terms[:3])
    found = [ones, twos << 1]
    if len(terms) > 3:
        more_ones, more_twos = full_adder(*[*terms[3:], C(0, width), C(0, width)][:3])
        ones, carry = ones ^ more_ones, ones & more_ones
        twos, fours = full_adder(twos, more_twos, carry)
        found = [ones, twos << 1, fours << 2]
    return [word[:width] for word in found]


def _sum(terms, shape: Shape) -> Value:
    while len(terms) > 1:
        pairs = [sum(terms[i + 1 : i + 2], terms[i]) for i in range(0, len(terms), 2)]
        terms = [_cut(pair, shape) for pair in pairs]
    return _cut(terms[0], shape)


def _cut(value: Value, shape: Shape) -> Value:
    if len(value) <= shape.width:
        return value
    value = value[: shape.width]
    return value.as_signed() if shape.signed else value
