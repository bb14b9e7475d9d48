"""The write side of a channel: single beats with full strobes, in order."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..axi import BURST_INCR, RESP_OKAY, byte_address
from ..config import Engine
from ..lib.in_flight import InFlight
from ..lib.queue import Queue
from ..lib.slice import Slice
from ..types import BEAT_ADDRESS, write_layout

DEPTH = 64  # beats that wait
OUTSTANDING = 64  # writes whose response is awaited, and one


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
        super().__init__(
            {
                "i": In(stream.Signature(write_layout(engine))),
                "level": Out(range(DEPTH + 1)),
                "pointer": In(64),
                "io_pointer": In(64),
                "abort": In(1),
                "quiet": Out(1),
                "fault": Out(1),
                "fault_address": Out(64),
                "awaddr": Out(64),
                "awlen": Out(8),
                "awsize": Out(3),
                "awburst": Out(2),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(8 * beat),
                "wstrb": Out(beat),
                "wlast": Out(1),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat = self._engine.beat_bytes
        m.submodules.queue = queue = Queue(write_layout(self._engine), depth=DEPTH)
        # Where each write went whose response is awaited; responses come in order.
        place = data.StructLayout({"io": 1, "address": BEAT_ADDRESS})
        m.submodules.places = places = InFlight(place, depth=OUTSTANDING)
        m.submodules.addresses = addresses = Slice(64)
        m.submodules.words = words = Slice(8 * beat)
        connect(m, flipped(self.i), queue.i)
        head = queue.o.p
        take, free = Signal(), Signal()
        m.d.comb += [
            self.level.eq(queue.level),
            free.eq(addresses.i.ready & words.i.ready & places.i.ready),
            take.eq(queue.o.valid & free & ~self.abort),
            queue.o.ready.eq(free | self.abort),
            places.i.valid.eq(take),
            places.i.p.io.eq(head.io),
            places.i.p.address.eq(head.address),
            places.pop.eq(self.bvalid),
            addresses.i.valid.eq(take),
            addresses.i.p.eq(self._address(head)),
            self.awvalid.eq(addresses.o.valid),
            self.awaddr.eq(addresses.o.p),
            addresses.o.ready.eq(self.awready),
            words.i.valid.eq(take),
            words.i.p.eq(head.data),
            self.wvalid.eq(words.o.valid),
            self.wdata.eq(words.o.p),
            words.o.ready.eq(self.wready),
            self.awlen.eq(0),
            self.awsize.eq(exact_log2(beat)),
            self.awburst.eq(BURST_INCR),
            self.wstrb.eq((1 << beat) - 1),
            self.wlast.eq(1),
            self.bready.eq(1),
        ]
        # of the response of the cycle before
        failed, where = Signal(), Signal(place)
        m.d.comb += self.quiet.eq(~queue.o.valid & places.empty & ~failed)
        m.d.sync += [failed.eq(self.bvalid & (self.bresp != RESP_OKAY)), where.eq(places.oldest)]
        with m.If(self.bvalid):
            m.d.sync += Assert(~places.empty, "a response to no write")
        with m.If(failed & ~self.fault):
            m.d.sync += [self.fault.eq(1), self.fault_address.eq(self._address(where))]
        return m

    def _address(self, place):
        """Byte address of a beat."""
        pointer = Mux(place.io, self.io_pointer, self.pointer)
        return byte_address(pointer, place.address, self._engine.beat_bytes)
