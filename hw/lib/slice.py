"""A register slice of a stream."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Slice(wiring.Component):
    """Register slice of a stream: the outputs are registers, and no path leads through it.

    Latency 1, throughput one word a cycle. A second register takes the word that comes while the first one
    has
    to wait.

    Members
    -------
    i, o : stream.Signature(shape)
        `i.ready` is a register (inverted), `o` are registers.
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        word = Value.cast(self.i.p)
        waits, spare = Signal(), Signal(len(word), reset_less=True)
        payload = Signal.like(spare)
        m.d.comb += [self.i.ready.eq(~waits), Value.cast(self.o.p).eq(payload)]
        with m.If(~waits):
            m.d.sync += spare.eq(word)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [
                self.o.valid.eq(self.i.valid | waits),
                payload.eq(Mux(waits, spare, word)),
                waits.eq(0),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += waits.eq(1)
        return m
