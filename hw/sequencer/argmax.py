"""The largest logit over all channels; ties go to the lowest token id."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import drain_layout


class Argmax(wiring.Component):
    """Running maximum over the channels' best rows, one a cycle.

    Members
    -------
    valid, first, word : In
        A BEST word of the drain bus (lanes 0, 1: logit; lane 2: id; lane 3: any row at all); `first` starts
        afresh.
    best : Out
        Token id, two cycles behind the last word.
    """

    def __init__(self, engine: Engine):
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "word": In(drain_layout(engine)),
                "best": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        logit, token, some = Signal(signed(48)), Signal(16), Signal()
        new_logit, new_token, new_some = Signal(signed(48)), Signal(16), Signal()
        pending, fresh = Signal(), Signal()
        m.d.sync += pending.eq(self.valid)
        with m.If(self.valid):
            m.d.sync += [
                new_logit.eq(Cat(self.word[0], self.word[1])),
                new_token.eq(self.word[2]),
                new_some.eq(self.word[3][0]),
                fresh.eq(self.first),
            ]
        better = ~some | fresh | (new_logit > logit) | ((new_logit == logit) & (new_token < token))
        with m.If(pending):
            with m.If(fresh | (new_some & better)):
                m.d.sync += [logit.eq(new_logit), token.eq(new_token), some.eq(new_some)]
        m.d.comb += self.best.eq(token)
        return m
