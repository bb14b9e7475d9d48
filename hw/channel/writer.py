"""The write side of a channel: single beats with full strobes, in order."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..axi import BURST_INCR, RESP_OKAY
from ..config import Engine
from ..lib import Queue
from ..types import BEAT_ADDRESS, write_layout

DEPTH = 64              # beats that wait
OUTSTANDING = 64        # writes whose response is awaited


class Writer(wiring.Component):
    """Beats to memory, one AXI write each: KV words of the current token, mailbox, tokens, state image.

    Throughput: a beat a cycle. Back-pressure: `i.ready` falls when the queue of `DEPTH` is full.

    Attributes
    ----------
    LATENCY : int
        Cycles from `i` until AW and W are valid.

    Members
    -------
    i : In(stream of write_layout)
    level : Out
        Beats in the queue.
    pointer, io_pointer : In
        Byte addresses that beats are relative to; stable while anything is queued.
    abort : In
        Queued beats are dropped; what was put on the bus is finished.
    quiet : Out
        Nothing is queued, on the bus, or awaits a response.
    fault, fault_address : Out
        A response was not OKAY; the address of its write. Held until reset.
    aw*, w*, b* : AXI4, see `axi.AxiMaster`
    """

    LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        beat = engine.beat_bytes
        super().__init__({
            "i": In(stream.Signature(write_layout(engine))), "level": Out(range(DEPTH + 1)),
            "pointer": In(64), "io_pointer": In(64), "abort": In(1), "quiet": Out(1),
            "fault": Out(1), "fault_address": Out(64),
            "awaddr": Out(64), "awlen": Out(8), "awsize": Out(3), "awburst": Out(2), "awvalid": Out(1),
            "awready": In(1),
            "wdata": Out(8 * beat), "wstrb": Out(beat), "wlast": Out(1), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat = self._engine.beat_bytes
        m.submodules.queue = queue = Queue(write_layout(self._engine), depth=DEPTH)
        # Where each write went whose response is awaited; responses come in order.
        m.submodules.places = places = Queue(
            data.StructLayout({"io": 1, "address": BEAT_ADDRESS}), depth=OUTSTANDING
        )
        connect(m, flipped(self.i), queue.i)
        head = queue.o.p
        take = Signal()
        free = (~self.awvalid | self.awready) & (~self.wvalid | self.wready) & places.i.ready
        m.d.comb += [
            self.level.eq(queue.level),
            take.eq(queue.o.valid & free & ~self.abort), queue.o.ready.eq(free | self.abort),
            places.i.valid.eq(take), places.i.p.io.eq(head.io), places.i.p.address.eq(head.address),
            places.o.ready.eq(self.bvalid),
            self.awlen.eq(0), self.awsize.eq(exact_log2(beat)), self.awburst.eq(BURST_INCR),
            self.wstrb.eq((1 << beat) - 1), self.wlast.eq(1), self.bready.eq(1),
            self.quiet.eq(~queue.o.valid & ~places.o.valid),
        ]
        with m.If(self.awready):
            m.d.sync += self.awvalid.eq(0)
        with m.If(self.wready):
            m.d.sync += self.wvalid.eq(0)
        with m.If(take):
            m.d.sync += [
                self.awvalid.eq(1), self.wvalid.eq(1), self.wdata.eq(head.data),
                self.awaddr.eq(self._address(head)),
            ]
        with m.If(self.bvalid):
            m.d.sync += Assert(places.o.valid, "a response to no write")
            with m.If((self.bresp != RESP_OKAY) & ~self.fault):
                m.d.sync += [self.fault.eq(1), self.fault_address.eq(self._address(places.o.p))]
        return m

    def _address(self, place):
        """Byte address of a beat."""
        return Mux(place.io, self.io_pointer, self.pointer) + (
            place.address << exact_log2(self._engine.beat_bytes)
        )
