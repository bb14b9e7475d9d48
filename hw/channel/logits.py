"""Writes a channel's logits to its HBM buffer, beside the head's own reads.

rows of the head (48 bits, one a cycle) ─► beat of 64-bit words ─► writer
"""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import BEAT_ADDRESS, write_layout

WORD_BYTES = 8  # a logit in memory: int64, little endian
LOGIT_BITS = 48


def beats_per_tile(engine: Engine) -> int:
    """Beats that the logits of a tile take."""
    return engine.lanes * WORD_BYTES // engine.beat_bytes


class LogitWriter(wiring.Component):
    """Packs the head's rows into beats and hands them to the channel's writer.

    Row n of an operation goes to word n from `base` on. Throughput: a row per cycle while `write` is taken.
    Back-pressure: while `hold` is high, the row is not taken and must stay.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from the last row of a beat to `write`.

    Members
    -------
    start, wanted, base : In
        Pulse: a head operation begins; whether its logits are written, and the first beat they go to. No row
        comes with it, and no beat waits.
    row_valid, row : In
        A logit, padding rows included.
    hold : Out
        A beat waits for the writer.
    idle : Out
        No beat waits.
    write : Out(stream.Signature(write_layout(engine)))
        Relative to the channel's own buffer.
    """

    LATENCY = 1

    def __init__(self, *, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "start": In(1),
                "wanted": In(1),
                "base": In(BEAT_ADDRESS),
                "row_valid": In(1),
                "row": In(signed(LOGIT_BITS)),
                "hold": Out(1),
                "idle": Out(1),
                "write": Out(stream.Signature(write_layout(engine))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = self._engine.beat_bytes // WORD_BYTES
        on, place = Signal(), Signal(range(count))
        words = [Signal(signed(LOGIT_BITS), name=f"word_{i}", reset_less=True) for i in range(count)]
        address, write, bits = Signal(BEAT_ADDRESS), self.write, 8 * WORD_BYTES
        m.d.comb += [
            self.hold.eq(write.valid & ~write.ready),
            self.idle.eq(~write.valid),
            write.p.io.eq(0),
            write.p.address.eq(address),
            *(write.p.data.as_value()[bits * i : bits * (i + 1)].eq(word) for i, word in enumerate(words)),
        ]
        with m.If(write.valid & write.ready):
            m.d.sync += [write.valid.eq(0), address.eq(address + 1)]
        # The words leave in the cycle in which the next row may come.
        with m.If(self.row_valid & on & ~self.hold):
            m.d.sync += place.eq(place + 1)
            with m.Switch(place):
                for i, word in enumerate(words):
                    with m.Case(i):
                        m.d.sync += word.eq(self.row)
            with m.If(place == count - 1):
                m.d.sync += write.valid.eq(1)
        with m.If(self.start):
            m.d.sync += [on.eq(self.wanted), place.eq(0), address.eq(self.base)]
        return m
