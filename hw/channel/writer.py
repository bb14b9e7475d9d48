"""The write side of a channel: single beats with full strobes, in order."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..axi import ADDRESS_BITS, BURST_INCR, FAULT_BITS, RESP_OKAY, AxiWrite, byte_address
from ..config import Engine
from ..lib.in_flight import InFlight
from ..lib.queue import Queue
from ..types import BEAT_ADDRESS, write_layout

DEPTH = 64  # beats that wait
OUTSTANDING = 64  # writes whose response is awaited, and one


class Writer(wiring.Component):
    """Beats to memory, one AXI write each: KV words of the current token, mailbox, tokens, state image.

    Throughput: a beat every other cycle, so that the output registers need neither a spare nor a choice: no
    source keeps up a higher rate. Back-pressure: `i.ready` falls when the queue of `DEPTH` is full.

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
        A response was not OKAY; low half of the address of its write. Held until reset.
    bus : Out(AxiWrite)
    """

    LATENCY = 3

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "i": In(stream.Signature(write_layout(engine))),
                "level": Out(range(DEPTH + 1)),
                "pointer": In(ADDRESS_BITS),
                "io_pointer": In(ADDRESS_BITS),
                "abort": In(1),
                "quiet": Out(1),
                "fault": Out(1),
                "fault_address": Out(FAULT_BITS),
                "bus": Out(AxiWrite(engine.beat_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat = self._engine.beat_bytes
        m.submodules.queue = queue = Queue(write_layout(self._engine), depth=DEPTH, deep=True)
        # Where each write went whose response is awaited; responses come in order.
        place = data.StructLayout({"io": 1, "address": BEAT_ADDRESS})
        m.submodules.places = places = InFlight(place, depth=OUTSTANDING)
        address, word = Signal(ADDRESS_BITS, reset_less=True), Signal(8 * beat, reset_less=True)
        connect(m, flipped(self.i), queue.i)
        head = queue.o.p
        take, free = Signal(), Signal()
        m.d.comb += [
            self.level.eq(queue.level),
            free.eq(~self.bus.awvalid & ~self.bus.wvalid & places.i.ready),
            take.eq(queue.o.valid & free & ~self.abort),
            queue.o.ready.eq(free | self.abort),
            places.i.valid.eq(take),
            places.i.p.io.eq(head.io),
            places.i.p.address.eq(head.address),
            places.pop.eq(self.bus.bvalid),
            self.bus.awaddr.eq(address),
            self.bus.wdata.eq(word),
            self.bus.awlen.eq(0),
            self.bus.awsize.eq(exact_log2(beat)),
            self.bus.awburst.eq(BURST_INCR),
            self.bus.wstrb.eq((1 << beat) - 1),
            self.bus.wlast.eq(1),
            self.bus.bready.eq(1),
        ]
        with m.If(self.bus.awready):
            m.d.sync += self.bus.awvalid.eq(0)
        with m.If(self.bus.wready):
            m.d.sync += self.bus.wvalid.eq(0)
        with m.If(take):
            m.d.sync += [
                self.bus.awvalid.eq(1),
                self.bus.wvalid.eq(1),
                address.eq(self._address(head)),
                word.eq(head.data),
            ]
        # of the response of the cycle before
        failed, where = Signal(), Signal(place)
        m.d.comb += self.quiet.eq((queue.level == 0) & places.empty & ~failed)
        m.d.sync += [failed.eq(self.bus.bvalid & (self.bus.bresp != RESP_OKAY)), where.eq(places.oldest)]
        with m.If(self.bus.bvalid):
            m.d.sync += Assert(~places.empty, "a response to no write")
        with m.If(failed & ~self.fault):
            m.d.sync += [self.fault.eq(1), self.fault_address.eq(self._address(where)[:FAULT_BITS])]
        return m

    def _address(self, place):
        """Byte address of a beat."""
        pointer = Mux(place.io, self.io_pointer, self.pointer)
        return byte_address(pointer, place.address, self._engine.beat_bytes)
