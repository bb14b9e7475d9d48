"""Assertions of the stream rules."""

from amaranth.hdl import Assert, Elaboratable, Module, Signal


class StreamChecker(Elaboratable):
    """Asserts that valid and payload of a stream hold until the transfer. It only watches, and makes no
    hardware.

    Parameters
    ----------
    watched : stream.Interface
        Either end of the stream.
    """

    def __init__(self, watched):
        self._watched = watched

    def elaborate(self, platform):
        m = Module()
        s = self._watched
        waiting = Signal()
        payload = Signal.like(s.p)
        m.d.sync += waiting.eq(s.valid & ~s.ready)
        with m.If(s.valid):
            m.d.sync += payload.eq(s.p)
        with m.If(waiting):
            m.d.sync += Assert(s.valid & (s.p == payload), "a stream did not hold valid and payload")
        return m
