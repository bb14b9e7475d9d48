"""How a part of a channel answers drain requests."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import DrainRequest, Source, drain_layout


def drain_port(engine: Engine) -> wiring.Signature:
    """A request, and `Answer.LATENCY` cycles later a word; the word is zero at all other times, so parts can
    be ORed."""
    return wiring.Signature({"valid": Out(1), "request": Out(DrainRequest), "word": In(drain_layout(engine))})


class Answer(wiring.Component):
    """Answers requests for two sources, one from an `AccumulatorBank` and one from registers; ignores other
    sources.

    One request a cycle; no back-pressure.

    Parameters
    ----------
    engine : Engine
    bank, fixed : Source
        Source that reads the bank, source that reads `word`.

    Attributes
    ----------
    LATENCY : int
        Cycles from request to word.

    Members
    -------
    drain : In(drain_port(engine))
    address : Out
        {valid, address} for the bank's drain port, in the cycle of the request.
    banked : In
        The bank's word, one cycle later; anything in all other cycles.
    word : In
        Lanes of the other source.
    """

    LATENCY = 2

    def __init__(self, *, engine: Engine, bank: Source, fixed: Source):
        self._bank, self._fixed = bank, fixed
        layout = drain_layout(engine)
        super().__init__({
            "drain": In(drain_port(engine)),
            "address": Out(wiring.Signature({"valid": Out(1), "address": Out(8)})),
            "banked": In(layout),
            "word": In(layout),
        })

    def elaborate(self, platform):
        m = Module()
        request = self.drain.request
        fixed, asked = Signal(), Signal()
        kept = Signal.like(self.word.as_value(), reset_less=True)
        m.d.comb += [
            self.address.valid.eq(self.drain.valid & (request.source == self._bank)),
            self.address.address.eq(request.address),
            fixed.eq(self.drain.valid & (request.source == self._fixed)),
        ]
        # Registers that are cleared rather than selected: an OR is all the logic of the way out.
        m.d.sync += [
            kept.eq(Mux(fixed, self.word.as_value(), 0)),
            asked.eq(self.address.valid),
            self.drain.word.as_value().eq(Mux(asked, self.banked.as_value(), 0) | kept),
        ]
        return m
