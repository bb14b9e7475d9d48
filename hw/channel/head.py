"""Decoding head of a channel: a serial drain of summed tiles through one multiplier, and a running maximum.

sums of a tile ─► held ─┐ one lane a cycle
scale beats ──► scales ─┴─► held * scale ─► maximum of (logit, lowest id)
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Engine
from ..types import CHANNEL_BITS, beat_layout

SCALE_BITS = 16
LOGIT_BITS = 48
ID_BITS = 16
_SPLIT = 17  # low bits of a sum: unsigned, they fit the 18-bit side of a DSP


class Best(data.Struct):
    """Largest logit so far and its vocabulary id; nothing yet unless `any`."""

    logit: signed(LOGIT_BITS)
    id: ID_BITS
    any: 1


class Head(wiring.Component):
    """Scales the sums of tiles of `lanes` vocabulary rows, and keeps the largest.

    Tile t of channel k holds rows (t * channels + k) * lanes .. + lanes - 1. A row of scale 0 never wins;
    of equal logits the
    lowest id wins, since rows come in increasing order. A tile drains one lane a cycle while the next one
    is summed; until it
    has drained, no scales of the next are taken.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from `end` to `idle` and the final `best`.
    EARLY : int
        Cycles that `idle` comes earlier with `plain`.

    Members
    -------
    index : In
        Number of this channel; static.
    start : In
        A head operation begins: forget the best, next tile is tile 0. Only while `idle`.
    scale : {valid, half, beat, ready}
        Scale beat `half` of the running tile; only while `ready`. Half 1 must follow half 0.
    end : In
        A tile is complete: `sums` are its sums. It comes within 4 cycles of scale half 1.
    plain : In
        No row is looked at outside or held: `idle` need not wait for the last comparisons, which end `EARLY`
        cycles behind it. The next operation starts no sooner.
    sums, some : In
        Sums of the tile; without `some` they count as zero (the tile had no rows here).
    idle : Out
        All tiles are in `best`, and no scales are waiting for `end`.
    best : Out(Best)
    row_valid, row, row_some, row_id : Out
        Every logit in order, padding rows included, for one cycle.
    hold : In
        The row is not taken: everything behind `sums` stands still.
    """

    EARLY = 3  # operands, partial products, product

    def __init__(self, *, engine: Engine):
        self._engine = engine
        self.LATENCY = engine.lanes + 4
        super().__init__(
            {
                "index": In(CHANNEL_BITS),
                "start": In(1),
                "scale": In(
                    wiring.Signature(
                        {
                            "valid": Out(1),
                            "half": Out(1),
                            "beat": Out(beat_layout(engine)),
                            "ready": In(1),
                        }
                    )
                ),
                "end": In(1),
                "sums": In(data.ArrayLayout(signed(engine.head_bits), engine.lanes)),
                "some": In(1),
                "plain": In(1),
                "idle": Out(1),
                "best": Out(Best),
                "row_valid": Out(1),
                "row": Out(signed(LOGIT_BITS)),
                "row_some": Out(1),
                "row_id": Out(ID_BITS),
                "hold": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self._engine.lanes
        held = [
            Signal(signed(self._engine.head_bits), name=f"held_{lane}", reset_less=True)
            for lane in range(lanes)
        ]
        scales = [Signal(SCALE_BITS, name=f"scale_{lane}", reset_less=True) for lane in range(lanes)]
        taken = Signal()  # `scales` belong to a tile that has not been drained yet
        draining = Signal()
        lane = Signal(range(lanes))

        self._take_scales(m, scales)
        m.d.comb += self.scale.ready.eq(~taken)
        with m.If(self.scale.valid & self.scale.half):
            m.d.sync += taken.eq(1)
        with m.If(self.end):
            m.d.sync += draining.eq(1)
            for kept, total in zip(held, self.sums):
                m.d.sync += kept.eq(Mux(self.some, total, 0))
        with m.If(draining & ~self.hold):
            m.d.sync += lane.eq(lane + 1)
            with m.If(lane == lanes - 1):
                m.d.sync += [draining.eq(0), taken.eq(0)]
        working = self._maximum(m, held, scales, draining, lane)
        m.d.comb += self.idle.eq(~(taken | (working & ~self.plain)))
        return m

    def _take_scales(self, m, scales):
        """Two scales of 16 bits lie in two bytes of a beat, low byte first."""
        half = len(scales) // 2
        for number in range(2):
            with m.If(self.scale.valid & (self.scale.half == number)):
                for lane in range(half):
                    low, high = self.scale.beat[2 * lane], self.scale.beat[2 * lane + 1]
                    m.d.sync += scales[number * half + lane].eq(Cat(low, high))

    def _maximum(self, m, held, scales, draining, lane):
        """Select, multiply, add the partial products, compare. Returns whether a row is on its way."""
        engine = self._engine
        number = Signal(ID_BITS - exact_log2(engine.lanes))  # tile * channels + index
        value = Signal(signed(engine.head_bits), reset_less=True)
        scale = Signal(signed(SCALE_BITS + 1), reset_less=True)
        # partial products, each of a DSP's size
        low = Signal(signed(_SPLIT + SCALE_BITS + 2), reset_less=True)
        high = Signal(signed(engine.head_bits - _SPLIT + SCALE_BITS + 1), reset_less=True)
        product = Signal(signed(LOGIT_BITS), reset_less=True)
        # 0: operands, 1: partial products, 2: product
        tokens = [
            Signal(data.StructLayout({"valid": 1, "some": 1, "id": ID_BITS}), name=f"row_{i}")
            for i in range(3)
        ]
        step = ~self.hold
        with m.If(step):
            m.d.sync += tokens[0].valid.eq(draining)
        with m.If(draining & step):
            with m.Switch(lane):
                for i in range(engine.lanes):
                    with m.Case(i):
                        m.d.sync += [
                            value.eq(held[i]),
                            scale.eq(scales[i]),
                            tokens[0].some.eq(scales[i] != 0),
                        ]
            m.d.sync += tokens[0].id.eq(Cat(lane, number))
            with m.If(lane == engine.lanes - 1):
                m.d.sync += number.eq(number + engine.channels)
        for before, after in zip(tokens, tokens[1:]):
            with m.If(step):
                m.d.sync += after.valid.eq(before.valid)
            with m.If(before.valid & step):
                m.d.sync += [after.some.eq(before.some), after.id.eq(before.id)]
        with m.If(tokens[0].valid & step):
            m.d.sync += [low.eq(value[:_SPLIT] * scale), high.eq(value[_SPLIT:].as_signed() * scale)]
        with m.If(tokens[1].valid & step):
            m.d.sync += product.eq(Cat(low[:_SPLIT], (low >> _SPLIT) + high))
        row, best = tokens[2], self.best
        m.d.comb += [self.row_valid.eq(row.valid), self.row.eq(product)]
        m.d.comb += [self.row_some.eq(row.some), self.row_id.eq(row.id)]
        with m.If(row.valid & row.some & (~best.any | (product > best.logit))):
            m.d.sync += [best.logit.eq(product), best.id.eq(row.id), best.any.eq(1)]
        with m.If(self.start):
            m.d.sync += [best.eq(Const(0, len(best.as_value()))), number.eq(self.index)]
        return tokens[0].valid | tokens[1].valid | tokens[2].valid
