"""From attention's sums to the mixed vector: reciprocals of the denominators, quotient, gate fusion."""

from amaranth.hdl import Array, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from symlight.model.ops import DEN_BITS

from ..config import Engine
from ..lib.pipeline import Pipeline
from ..types import OpEntry, drain_layout
from .fusion import ALIGN_BITS, RECIPROCAL_BITS, MixFusion, Reciprocal
from .session_state import word16
from .words import WordOp


class FusionPath(wiring.Component):
    """Attention's quotient and the gate: denominators to reciprocals, numerators and decay state to the mixed
    vector.

    Members
    -------
    weight_valid, weight_tag, weight_word : In
        A word of the drain bus with denominators in its lanes (`fresh`), or the held one; lane `sub`, head
        `index`.
    mix_valid, mix_tag, numerator, state, entry : In
        Numerator word of head `sub`, and its decay state word.
    cast_valid, cast_word, cast_index, done : Out
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self._reciprocal, self._fusion = Reciprocal(), MixFusion(engine.lanes)
        self.LATENCY = self._fusion.LATENCY
        # From a WEIGHT word to the earliest MIX word of the same head at this component's inputs.
        self.RECIPROCAL_LATENCY = self._reciprocal.LATENCY + 3
        super().__init__(
            {
                "entry": In(OpEntry),
                "weight_valid": In(1),
                "weight_tag": In(WordOp),
                "weight_word": In(drain_layout(engine)),
                "mix_valid": In(1),
                "mix_tag": In(WordOp),
                "numerator": In(drain_layout(engine)),
                "state": In(word16(engine)),
                "cast_valid": Out(1),
                "cast_word": Out(data.ArrayLayout(signed(8), engine.lanes)),
                "cast_index": Out(8),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self._engine.lanes
        m.submodules.reciprocal = reciprocal = self._reciprocal
        m.submodules.fusion = fusion = self._fusion
        m.submodules.quotients = quotients = Memory(
            shape=data.StructLayout({"align": ALIGN_BITS, "recip": RECIPROCAL_BITS}),
            depth=max(2, 1 << (self._engine.heads - 1).bit_length()),
            init=[],
        )
        # A word has a denominator a head of its column.
        held = [
            Signal(DEN_BITS, name=f"held{i}", reset_less=True) for i in range(min(lanes, self._engine.heads))
        ]
        fresh = self.weight_valid & self.weight_tag.fresh
        with m.If(fresh):
            m.d.sync += [kept.eq(self.weight_word[i][:DEN_BITS]) for i, kept in enumerate(held)]
        pipe = Pipeline(m, self.weight_valid, 2 + reciprocal.LATENCY)
        lane = pipe.carry(0, 1, self.weight_tag.sub, "lane")
        den = pipe.reg(2, Array(held)[lane], "den")
        m.d.comb += [reciprocal.i_valid.eq(pipe.valid[2]), reciprocal.den.eq(den)]
        write, read = quotients.write_port(), quotients.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(reciprocal.o_valid),
            write.addr.eq(pipe.carry(0, 2 + reciprocal.LATENCY, self.weight_tag.index, "head")),
            write.data.align.eq(reciprocal.align),
            write.data.recip.eq(reciprocal.recip),
            read.addr.eq(self.mix_tag.sub),
            fusion.i_valid.eq(self.mix_valid),
            fusion.num.eq(self.numerator),
            fusion.h.eq(self.state),
            fusion.align.eq(read.data.align),
            fusion.recip.eq(read.data.recip),
            fusion.gain_o.eq(self.entry.multiplier_a),
            fusion.gain_h.eq(self.entry.multiplier_b),
            fusion.shift.eq(self.entry.shift_a),
            fusion.threshold.eq(self.entry.threshold),
        ]
        tags = Pipeline(m, self.mix_valid, fusion.LATENCY)
        tag = WordOp(tags.carry(0, fusion.LATENCY, self.mix_tag, "tag"))
        m.d.comb += [
            self.cast_valid.eq(fusion.o_valid),
            self.cast_word.eq(fusion.m),
            self.cast_index.eq(tag.index),
            self.done.eq(fusion.o_valid & tag.last),
        ]
        return m
