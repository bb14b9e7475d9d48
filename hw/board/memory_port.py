"""The kernel's memory port and the host's requests in one stream to the SDRAM controller."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..axi import BURST_BITS, MAX_BURST, RESP_OKAY, AxiMaster
from ..lib.in_flight import InFlight
from ..lib.slice import Slice
from .chip import SdramChip
from .sdram_ports import request_layout

READ_BEATS = 64  # beats that are requested and not taken: the depth of the queue behind the controller


class MemoryPort(wiring.Component):
    """AXI reads and single-beat writes of the kernel, and beats of the host, in the order of acceptance.

    One queue leads to the memory, so a write is answered when it is in that queue: every later read, of the
    kernel or of the host, sees it. A read is accepted when the queue of read beats has room for it. Addresses
    wrap at the size of the chip.

    Throughput: a request a cycle. Latency: 1 cycle to `requests`; none from `beats` to R.
    Back-pressure: all streams.

    Parameters
    ----------
    chip : SdramChip
    beat_bytes : int

    Members
    -------
    kernel : In(AxiMaster)
        Reads of up to 16 beats; writes of one full beat.
    host : In(stream of request_layout)
        One beat each.
    host_beats : Out(stream)
        What the host has read, in order.
    requests : Out(stream of request_layout)
        To the controller.
    beats : In(stream)
        What it has read, in order.
    """

    def __init__(self, *, chip: SdramChip, beat_bytes: int):
        self._request, self._beat_bytes = request_layout(chip, beat_bytes), beat_bytes
        super().__init__(
            {
                "kernel": In(AxiMaster(beat_bytes)),
                "host": In(stream.Signature(self._request)),
                "host_beats": Out(stream.Signature(8 * beat_bytes)),
                "requests": Out(stream.Signature(self._request)),
                "beats": In(stream.Signature(8 * beat_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        tag = data.StructLayout({"host": 1, "beats": BURST_BITS})
        m.submodules.tags = self._tags = InFlight(tag, depth=READ_BEATS)
        m.submodules.slice = queue = Slice(self._request)
        connect(m, queue.o, flipped(self.requests))
        waiting = Signal(range(READ_BEATS + 1))  # beats requested and not taken
        room = Signal()  # for two bursts: it is a cycle late
        m.d.sync += room.eq(waiting <= READ_BEATS - 2 * MAX_BURST)
        self._accept(m, queue.i, room & self._tags.i.ready)
        taken = Signal()
        m.d.comb += taken.eq(self.beats.valid & self.beats.ready)
        asked = Signal(BURST_BITS)
        m.d.comb += asked.eq(self._tags.i.p.beats)
        with m.If(self._tags.i.valid & self._tags.i.ready):
            m.d.sync += waiting.eq(waiting + asked - taken)
        with m.Else():
            m.d.sync += waiting.eq(waiting - taken)
        self._answer(m, taken)
        return m

    def _accept(self, m, to, may_read):
        """Host first, which is slow; then writes, then reads of the kernel."""
        bus, host, tags = self.kernel, self.host, self._tags
        shift = exact_log2(self._beat_bytes)
        write, respond = Signal(), Signal()
        m.d.comb += [
            to.p.eq(host.p),
            tags.i.p.host.eq(1),
            tags.i.p.beats.eq(1),
            bus.write.bvalid.eq(respond),
            bus.write.bresp.eq(RESP_OKAY),
            write.eq(bus.write.awvalid & bus.write.wvalid & ~respond),
        ]
        with m.If(host.valid & (host.p.write | may_read)):
            m.d.comb += [
                to.valid.eq(1),
                host.ready.eq(to.ready),
                tags.i.valid.eq(to.ready & ~host.p.write),
            ]
        with m.Elif(write):
            m.d.comb += [
                to.valid.eq(1),
                to.p.write.eq(1),
                to.p.address.eq(bus.write.awaddr >> shift),
                to.p.beats.eq(1),
                to.p.data.eq(bus.write.wdata),
                bus.write.awready.eq(to.ready),
                bus.write.wready.eq(to.ready),
            ]
            m.d.sync += [
                Assert(bus.write.awlen == 0, "a write of more than one beat"),
                Assert(bus.write.wstrb.all(), "a write of part of a beat"),
            ]
        with m.Elif(bus.read.arvalid & may_read):
            m.d.comb += [
                to.valid.eq(1),
                to.p.write.eq(0),
                to.p.address.eq(bus.read.araddr >> shift),
                to.p.beats.eq(bus.read.arlen + 1),
                bus.read.arready.eq(to.ready),
                tags.i.valid.eq(to.ready),
                tags.i.p.host.eq(0),
                tags.i.p.beats.eq(bus.read.arlen + 1),
            ]
            m.d.sync += Assert(bus.read.arlen < MAX_BURST, "a read of more than 16 beats")
        with m.If(bus.write.awvalid & bus.write.awready):
            m.d.sync += respond.eq(1)
        with m.Elif(bus.write.bready):
            m.d.sync += respond.eq(0)

    def _answer(self, m, taken):
        """Beats in order to whom they belong."""
        bus, tag = self.kernel, self._tags.oldest
        number = Signal(BURST_BITS)  # of the next beat within its request
        last = Signal()
        m.d.comb += [
            last.eq(number == tag.beats - 1),
            bus.read.rdata.eq(self.beats.p),
            bus.read.rresp.eq(RESP_OKAY),
            bus.read.rlast.eq(last),
            bus.read.rvalid.eq(self.beats.valid & ~tag.host),
            self.host_beats.p.eq(self.beats.p),
            self.host_beats.valid.eq(self.beats.valid & tag.host),
            self._tags.pop.eq(taken & last),
        ]
        with m.If(tag.host):
            m.d.comb += self.beats.ready.eq(self.host_beats.ready)
        with m.Else():
            m.d.comb += self.beats.ready.eq(bus.read.rready)
        with m.If(taken):
            m.d.sync += number.eq(number + 1)
            with m.If(last):
                m.d.sync += number.eq(0)
        with m.If(self.beats.valid):
            m.d.sync += Assert(~self._tags.empty, "a beat that nobody asked for")
