"""From products of q and k to attention weights."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...config import Engine
from ...types import CHANNEL_BITS, COLUMN_BITS, RingShape
from .broadcast_receiver import SLOPE_BITS
from .read_scheduler import WEIGHT_BITS, key_layout

PRODUCT_BITS = 15  # of k and q, which are bytes from -127 to 127
SCORE_BITS = 32
DOT_BITS = 24  # of q . k, over up to 2^8 bytes
POSITION_BITS = 20


class Score(wiring.Component):
    """weight = clamp((q . k << score_frac) - slope * distance, 0, 32767), one a head and slot.

    An adder tree sums the lanes (a register every two additions), a register the beats of a head. The
    distance is found beside it from the slot. Takes a beat every cycle.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from a head's last beat to its weight.

    Members
    -------
    beat : In
        {valid, unit, products}: a k beat, times q.
    slopes, ring, column, group : In
        Static.
    position, slot : In
        Of the current token; constant while beats are in flight.
    weight : Out
        {valid, value}
    """

    def __init__(self, *, engine: Engine):
        self._engine = engine
        self._levels, terms = 0, engine.lanes
        while terms > 1:
            self._levels, terms = self._levels + 1, -(-terms // 4)
        self.LATENCY = self._levels + 3
        super().__init__(
            {
                "beat": In(
                    wiring.Signature(
                        {
                            "valid": Out(1),
                            "unit": Out(key_layout(engine)),
                            "products": Out(data.ArrayLayout(signed(PRODUCT_BITS), engine.lanes)),
                        }
                    )
                ),
                "slopes": In(data.ArrayLayout(SLOPE_BITS, engine.heads)),
                "ring": In(RingShape),
                "column": In(COLUMN_BITS),
                "group": In(CHANNEL_BITS),
                "position": In(POSITION_BITS),
                "slot": In(9),
                "weight": Out(wiring.Signature({"valid": Out(1), "value": Out(WEIGHT_BITS)})),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layout = data.StructLayout(
            {"first": 1, "last": 1, **{key: key_layout(self._engine)[key].shape for key in ("head", "local")}}
        )
        # [i]: i cycles after the products
        flights = [Signal(layout, name=f"unit_{i}") for i in range(self._levels + 2)]
        valid = [Signal(name=f"valid_{i}") for i in range(self.LATENCY + 1)]
        m.d.comb += [valid[0].eq(self.beat.valid)]
        m.d.comb += [getattr(flights[0], name).eq(getattr(self.beat.unit, name)) for name in layout.members]
        for i in range(self._levels + 1):
            with m.If(valid[i]):
                m.d.sync += flights[i + 1].eq(flights[i])
        total, done = self._tree(m, valid), flights[self._levels]
        dot = Signal(signed(DOT_BITS), reset_less=True)
        shifted = Signal(signed(SCORE_BITS), reset_less=True)
        score = Signal(signed(SCORE_BITS), reset_less=True)
        summed, scaled = valid[self._levels + 1], valid[self._levels + 2]
        for i in range(self.LATENCY):  # behind the sum only the last beat of a head goes on
            m.d.sync += valid[i + 1].eq(valid[i] & (done.last if i == self._levels else 1))
        with m.If(valid[self._levels]):
            m.d.sync += dot.eq(Mux(done.first, 0, dot) + total)
        with m.If(summed):
            m.d.sync += shifted.eq(dot << self.ring.score_frac)
        penalty = self._penalty(m, valid[self._levels] & done.last, done, summed)
        with m.If(scaled):
            m.d.sync += score.eq(shifted - penalty)
        limit = (1 << WEIGHT_BITS) - 1
        m.d.comb += self.weight.valid.eq(valid[-1])
        with m.If(score >= 0):
            m.d.comb += self.weight.value.eq(Mux(score[WEIGHT_BITS:] != 0, limit, score))
        return m

    def _tree(self, m, valid):
        terms = list(self.beat.products)
        for level in range(self._levels):
            groups = [terms[i : i + 4] for i in range(0, len(terms), 4)]
            terms = [
                Signal(signed(PRODUCT_BITS + 2 + 2 * level), name=f"sum_{level}_{i}", reset_less=True)
                for i in range(len(groups))
            ]
            with m.If(valid[level]):
                for term, group in zip(terms, groups):
                    pairs = [sum(group[i : i + 2][1:], group[i]) for i in range(0, len(group), 2)]
                    m.d.sync += term.eq(sum(pairs[1:], pairs[0]))
        return terms[0]

    def _penalty(self, m, select, unit, multiply):
        """slope * distance, two cycles after `select`."""
        first_head = Signal(12)  # of this column
        wrapped = Signal(11)  # slot of the current token, one turn of the ring ahead
        slot = Signal(10)
        distance = Signal(POSITION_BITS, reset_less=True)
        slope = Signal(SLOPE_BITS, reset_less=True)
        penalty = Signal(POSITION_BITS + SLOPE_BITS, reset_less=True)
        m.d.sync += [first_head.eq(self.column * self.ring.heads), wrapped.eq(self.slot + self.ring.ring)]
        m.d.comb += slot.eq((unit.local << self.ring.log_groups) | self.group)
        with m.If(select):
            m.d.sync += slope.eq(self.slopes[(first_head + unit.head)[: len(unit.head)]])
            with m.If(slot < self.ring.anchors):
                m.d.sync += distance.eq(self.position - slot)
            with m.Elif(slot <= self.slot):
                m.d.sync += distance.eq(self.slot - slot)
            with m.Else():
                m.d.sync += distance.eq(wrapped - slot)
        with m.If(multiply):
            m.d.sync += penalty.eq(distance * slope)
        return penalty
