"""Runs of consecutive beats to AXI bursts: contiguous runs merge, bursts end at 16 beats and at 4 KB."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import MAX_BURST, PAGE_BYTES
from ..config import Engine
from ..types import BEAT_ADDRESS

RUN = data.StructLayout({"address": BEAT_ADDRESS, "beats": 20})     # consecutive beats
BURST = data.StructLayout({"address": BEAT_ADDRESS, "beats": 5})    # 1 .. MAX_BURST of them


class BurstMerger(wiring.Component):
    """Cuts runs into bursts, and merges by address, not by row: a run that continues the last one extends it.

    Throughput: a run and a burst a cycle. A short burst leaves as soon as no continuing run is waiting. Latency 2 cycles.
    Back-pressure: `i.ready` falls while a burst waits and the held run cannot be extended.

    Attributes
    ----------
    LATENCY : int
        Cycles from a run to its burst.

    Members
    -------
    i : In(stream of RUN), beats > 0
    o : Out(stream of BURST)
    idle : Out
        Nothing is held.
    """

    LATENCY = 2

    def __init__(self, engine: Engine):
        self._page = PAGE_BYTES // engine.beat_bytes
        super().__init__({"i": In(stream.Signature(RUN)), "o": Out(stream.Signature(BURST)), "idle": Out(1)})

    def elaborate(self, platform):
        m = Module()
        address, left, end = Signal(BEAT_ADDRESS), Signal(21), Signal(BEAT_ADDRESS)
        limit, length = Signal(5), Signal(5)
        to_page = Signal(range(self._page + 1))
        continues, full, emit, take = Signal(), Signal(), Signal(), Signal()
        free = ~self.o.valid | self.o.ready
        m.d.comb += [
            to_page.eq(self._page - address % self._page),
            limit.eq(Mux(to_page > MAX_BURST, MAX_BURST, to_page)),
            full.eq(left >= limit), length.eq(Mux(full, limit, left)),
            continues.eq(self.i.valid & (self.i.p.address == end) & ~left[-1]),
            emit.eq((left != 0) & free & (full | ~continues)),
            # An empty register takes any run, a full one only what continues it; one that empties now, any run as well.
            take.eq((left == 0) | continues | (emit & (length == left))),
            self.i.ready.eq(take), self.idle.eq((left == 0) & ~self.o.valid),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(emit):
            m.d.sync += [self.o.valid.eq(1), self.o.p.address.eq(address), self.o.p.beats.eq(length)]
        kept = left - Mux(emit, length, 0)
        with m.If(self.i.valid & take):
            m.d.sync += [
                left.eq((kept + self.i.p.beats)[:21]), end.eq(self.i.p.address + self.i.p.beats),
                address.eq(Mux(kept[:21] == 0, self.i.p.address, address + Mux(emit, length, 0))),
            ]
        with m.Elif(emit):
            m.d.sync += [left.eq(kept), address.eq(address + length)]
        return m
