"""The write side of a channel: single beats with full strobes, in order."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..axi import BURST_INCR, RESP_OKAY
from ..config import Engine
from ..lib import Queue
from ..types import write_layout

DEPTH = 64              # beats that wait
OUTSTANDING = 63        # writes whose response is awaited


class Writer(wiring.Component):
    """Beats to memory, one AXI write each: KV words of the current token, mailbox, tokens, state image.

    Throughput: a beat every two cycles, or as the memory takes them. Back-pressure: `i.ready` falls when the queue of `DEPTH` is full.

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
        A response was not OKAY; the newest address at that time, one of the outstanding writes. Held until reset.
    aw*, w*, b* : AXI4, see `axi.AxiMaster`
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        beat = engine.beat_bytes
        super().__init__({
            "i": In(stream.Signature(write_layout(engine))), "level": Out(range(DEPTH + 1)),
            "pointer": In(64), "io_pointer": In(64), "abort": In(1), "quiet": Out(1),
            "fault": Out(1), "fault_address": Out(64),
            "awaddr": Out(64), "awlen": Out(8), "awsize": Out(3), "awburst": Out(2), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(8 * beat), "wstrb": Out(beat), "wlast": Out(1), "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        beat = self._engine.beat_bytes
        shift = beat.bit_length() - 1
        m.submodules.queue = queue = Queue(write_layout(self._engine), depth=DEPTH)
        outstanding = Signal(range(OUTSTANDING + 1))
        free = (~self.awvalid | self.awready) & (~self.wvalid | self.wready) & (outstanding != OUTSTANDING)
        take = Signal()
        head = queue.o.p
        m.d.comb += [
            queue.i.p.eq(self.i.p), queue.i.valid.eq(self.i.valid), self.i.ready.eq(queue.i.ready),
            self.level.eq(queue.level),
            take.eq(queue.o.valid & free & ~self.abort), queue.o.ready.eq(take | self.abort),
            self.awlen.eq(0), self.awsize.eq(shift), self.awburst.eq(BURST_INCR),
            self.wstrb.eq((1 << beat) - 1), self.wlast.eq(1), self.bready.eq(1),
            self.quiet.eq(~queue.o.valid & ~self.awvalid & ~self.wvalid & (outstanding == 0)),
        ]
        with m.If(self.awready):
            m.d.sync += self.awvalid.eq(0)
        with m.If(self.wready):
            m.d.sync += self.wvalid.eq(0)
        with m.If(take):
            m.d.sync += [self.awvalid.eq(1), self.wvalid.eq(1), self.wdata.eq(head.data)]
            with m.If(head.io):
                m.d.sync += self.awaddr.eq(self.io_pointer + (head.address << shift))
            with m.Else():
                m.d.sync += self.awaddr.eq(self.pointer + (head.address << shift))
        answered = self.bvalid & self.bready
        with m.If(take & ~answered):
            m.d.sync += outstanding.eq(outstanding + 1)
        with m.Elif(answered & ~take):
            m.d.sync += outstanding.eq(outstanding - 1)
        with m.If(answered & (self.bresp != RESP_OKAY) & ~self.fault):
            m.d.sync += [self.fault.eq(1), self.fault_address.eq(self.awaddr)]
        return m
