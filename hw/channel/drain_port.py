"""How a part of a channel answers drain requests."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import DrainRequest, Source, drain_layout


def drain_port(engine: Engine) -> wiring.Signature:
    """A request, and `DrainPort.LATENCY` cycles later `word_valid` and a word.

    `asked` is high with every request that passes the channel, for this column (`valid`) or another.
    The word is `word` | `fixed`; it is undefined unless `word_valid` is high. The consumer masks it where the
    units are joined, and joins its parts there, too, in the same LUTs.
    """
    return wiring.Signature(
        {
            "asked": Out(1),
            "valid": Out(1),
            "request": Out(DrainRequest),
            "word_valid": In(1),
            "word": In(drain_layout(engine)),
            "fixed": In(drain_layout(engine)),
        }
    )


class DrainPort(wiring.Component):
    """Answers requests for two sources, one from an `AccumulatorBank` and one from registers; ignores other
    sources.

    One request a cycle; no back-pressure.

    Parameters
    ----------
    engine : Engine
    bank, fixed : Source
        Source that reads the bank, source (or several) that reads `word`.

    Attributes
    ----------
    LATENCY : int
        Cycles from request to word.

    Members
    -------
    drain : In(drain_port(engine))
    address : Out
        {valid, read, address} for the bank's drain port, in the cycle of the request.
    banked : In
        The bank's word, one cycle later, zero if it was not read.
    word : In
        Lanes of the other source.
    """

    LATENCY = 1

    def __init__(self, *, engine: Engine, bank: Source, fixed: Source | tuple[Source, ...]):
        self._bank, self._fixed = bank, fixed if isinstance(fixed, tuple) else (fixed,)
        layout = drain_layout(engine)
        super().__init__(
            {
                "drain": In(drain_port(engine)),
                "address": Out(wiring.Signature({"valid": Out(1), "read": Out(1), "address": Out(8)})),
                "banked": In(layout),
                "word": In(layout),
            }
        )

    def elaborate(self, platform):
        m = Module()
        request = self.drain.request
        fixed = Signal()
        kept = Signal.like(self.word.as_value(), reset_less=True)
        m.d.comb += [
            self.address.read.eq(request.source == self._bank),
            self.address.address.eq(request.address),
            self.address.valid.eq(self.drain.valid & self.address.read),
            fixed.eq(reduce(or_, (request.source == source for source in self._fixed))),
            self.drain.word.as_value().eq(self.banked.as_value()),
            self.drain.fixed.as_value().eq(kept),
        ]
        # Words are cleared rather than selected, by the source alone: whether it was asked for comes late.
        m.d.sync += [
            kept.eq(Mux(fixed, self.word.as_value(), 0)),
            self.drain.word_valid.eq(self.drain.valid & (self.address.read | fixed)),
        ]
        return m
