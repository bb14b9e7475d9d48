"""Decoding head of a channel: an accumulator a lane, a serial drain through one multiplier, and a running maximum.

    products ─► sums (one a lane) ─ tile ends ─► held ─┐ one lane a cycle
    scale beats ────────────────────────────► scales ──┴─► held * scale ─► maximum of (logit, lowest id)
"""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Engine
from ..types import ACC_BITS, beat_layout

SCALE_BITS = 16
LOGIT_BITS = 48
ID_BITS = 16


class Best(data.Struct):
    """Largest logit so far and its vocabulary id; nothing yet unless `any`."""

    logit: signed(LOGIT_BITS)
    id: ID_BITS
    any: 1


class Head(wiring.Component):
    """Sums tiles of `lanes` vocabulary rows, and keeps the largest scaled sum.

    Tile t of channel k holds rows (t * channels + k) * lanes .. + lanes - 1. A row of scale 0 never wins; of equal logits the
    lowest id wins, since rows come in increasing order. While a tile drains (one lane a cycle), the next one adds up.
    Throughput: one addition a cycle; a tile of fewer than `lanes` additions waits at its first scale beat.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from `end` to `idle` and the final `best`.

    Members
    -------
    index : In
        Number of this channel; static.
    start : In
        A head operation begins: forget the best, next tile is tile 0. Only while `idle`.
    add : In
        Add `products` to the running tile.
    products : In
    scale : {valid, half, beat, ready}
        Scale beat `half` of the running tile; only while `ready`. Half 1 must follow half 0.
    end : In
        The running tile is complete (its last addition came in an earlier cycle, its scales are here).
        It comes within 4 cycles of scale half 1, before any addition of the next tile.
    idle : Out
        All tiles are in `best`, and no scales are waiting for `end`.
    best : Out(Best)
    """

    def __init__(self, *, engine: Engine):
        self._engine = engine
        self.LATENCY = engine.lanes + 4
        super().__init__({
            "index": In(5),
            "start": In(1),
            "add": In(1),
            "products": In(data.ArrayLayout(signed(16), engine.lanes)),
            "scale": In(wiring.Signature({
                "valid": Out(1), "half": Out(1), "beat": Out(beat_layout(engine)), "ready": In(1),
            })),
            "end": In(1),
            "idle": Out(1),
            "best": Out(Best),
        })

    def elaborate(self, platform):
        m = Module()
        lanes = self._engine.lanes
        held = [Signal(signed(ACC_BITS), name=f"held_{lane}", reset_less=True) for lane in range(lanes)]
        scales = [Signal(SCALE_BITS, name=f"scale_{lane}", reset_less=True) for lane in range(lanes)]
        taken = Signal()            # `scales` belong to a tile that has not been drained yet
        draining = Signal()
        lane = Signal(range(lanes))

        self._sum(m, held)
        self._take_scales(m, scales)
        m.d.comb += self.scale.ready.eq(~taken)
        with m.If(self.scale.valid & self.scale.half):
            m.d.sync += taken.eq(1)
        with m.If(self.end):
            m.d.sync += draining.eq(1)
        with m.If(draining):
            m.d.sync += lane.eq(lane + 1)
            with m.If(lane == lanes - 1):
                m.d.sync += [draining.eq(0), taken.eq(0)]
        working = self._maximum(m, held, scales, draining, lane)
        m.d.comb += self.idle.eq(~(taken | working))
        return m

    def _sum(self, m, held):
        """The running tile. At its end the sums move over and start again at zero."""
        for lane, kept in enumerate(held):
            total = Signal(signed(ACC_BITS), name=f"sum_{lane}")
            with m.If(self.add):
                m.d.sync += total.eq(total + self.products[lane])
            with m.If(self.end):
                m.d.sync += [kept.eq(total), total.eq(0)]

    def _take_scales(self, m, scales):
        """Two scales of 16 bits lie in two bytes of a beat, low byte first."""
        half = len(scales) // 2
        for number in range(2):
            with m.If(self.scale.valid & (self.scale.half == number)):
                for lane in range(half):
                    low, high = self.scale.beat[2 * lane], self.scale.beat[2 * lane + 1]
                    m.d.sync += scales[number * half + lane].eq(Cat(low, high))

    def _maximum(self, m, held, scales, draining, lane):
        """Select, multiply (two product registers, for the tool to spread over two DSPs), compare. Returns "at work"."""
        engine = self._engine
        number = Signal(ID_BITS - exact_log2(engine.lanes))     # tile * channels + index
        value = Signal(signed(ACC_BITS), reset_less=True)
        scale = Signal(signed(SCALE_BITS + 1), reset_less=True)
        product = [Signal(signed(LOGIT_BITS), name=f"product_{i}", reset_less=True) for i in range(2)]
        # 0: operands, 1 and 2: product
        tokens = [
            Signal(data.StructLayout({"valid": 1, "some": 1, "id": ID_BITS}), name=f"row_{i}") for i in range(3)
        ]
        m.d.sync += tokens[0].valid.eq(draining)
        with m.If(draining):
            with m.Switch(lane):
                for i in range(engine.lanes):
                    with m.Case(i):
                        m.d.sync += [value.eq(held[i]), scale.eq(scales[i]), tokens[0].some.eq(scales[i] != 0)]
            m.d.sync += tokens[0].id.eq(Cat(lane, number))
            with m.If(lane == engine.lanes - 1):
                m.d.sync += number.eq(number + engine.channels)
        for before, after in zip(tokens, tokens[1:]):
            m.d.sync += after.valid.eq(before.valid)
            with m.If(before.valid):
                m.d.sync += [after.some.eq(before.some), after.id.eq(before.id)]
        with m.If(tokens[0].valid):
            m.d.sync += product[0].eq(value * scale)
        with m.If(tokens[1].valid):
            m.d.sync += product[1].eq(product[0])
        row, best = tokens[2], self.best
        with m.If(row.valid & row.some & (~best.any | (product[1] > best.logit))):
            m.d.sync += [best.logit.eq(product[1]), best.id.eq(row.id), best.any.eq(1)]
        with m.If(self.start):
            m.d.sync += [best.eq(Const(0, len(best.as_value()))), number.eq(self.index)]
        return draining | tokens[0].valid | tokens[1].valid | tokens[2].valid
