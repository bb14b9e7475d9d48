"""The R side of a channel: beats to the lanes or to the KV loader, by the tags of their bursts; counts and
faults."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import ADDRESS_BITS, BURST_BITS, FAULT_BITS, RESP_OKAY, byte_address
from ..config import Engine
from ..lib.in_flight import InFlight
from ..lib.queue import Queue
from ..types import BEAT_ADDRESS, TRAFFIC_BITS, beat_layout

TAGS = 64  # bursts in flight, and one
KV_WAITING = 32  # KV beats that wait for the loader
KV_SLACK = 3  # of these, beats that come before RREADY shows that there are too many

TAG = data.StructLayout(
    {"kv": 1, "io": 1, "address": BEAT_ADDRESS, "beats": BURST_BITS, "traffic": TRAFFIC_BITS}
)


class Receiver(wiring.Component):
    """Sorts the beats of R: KV beats to the loader, all others to the lanes.

    Room for the lanes' beats is reserved before their burst is asked for. RREADY falls only when KV beats
    wait in numbers. Throughput: a beat a cycle. Behind RVALID are enables of memories and registers only;
    counters and faults see a beat a cycle later.

    Attributes
    ----------
    LATENCY : int
        Cycles from R to `beats` and to `kv`.

    Members
    -------
    tags : In(stream of TAG)
        A burst that will be asked for.
    beats, kv : Out(stream of beat_layout)
    freed, kv_taken : Out
        Pulses, a cycle late: a beat has left for the lanes, a KV beat has come.
    count_index, count, clear : In, Out, In
        Beats read of a traffic kind, one cycle later; `clear` zeroes them.
    pointer, io_pointer : In
    abort : In
        What arrives for the loader is discarded.
    quiet : Out
        No burst is in flight.
    fault, fault_address : Out
        A response was not OKAY; low half of the address of its burst. Held until reset.
    r* : AXI4
    """

    LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        beat = beat_layout(engine)
        super().__init__(
            {
                "tags": In(stream.Signature(TAG)),
                "beats": Out(stream.Signature(beat)),
                "kv": Out(stream.Signature(beat)),
                "freed": Out(1),
                "kv_taken": Out(1),
                "count_index": In(TRAFFIC_BITS),
                "count": Out(32),
                "clear": In(1),
                "pointer": In(ADDRESS_BITS),
                "io_pointer": In(ADDRESS_BITS),
                "abort": In(1),
                "quiet": Out(1),
                "fault": Out(1),
                "fault_address": Out(FAULT_BITS),
                "rdata": In(8 * engine.beat_bytes),
                "rresp": In(2),
                "rlast": In(1),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.tags = tags = InFlight(TAG, depth=TAGS)
        m.submodules.fifo = fifo = Queue(beat_layout(engine), depth=engine.read_beats, credit_based=True)
        m.submodules.kv_queue = kv = Queue(
            beat_layout(engine), depth=KV_WAITING, deep=True, credit_based=True
        )
        connect(m, flipped(self.tags), tags.i)
        connect(m, fifo.o, flipped(self.beats))
        taken, tag = Signal(), tags.oldest
        # of the beat of the cycle before
        ended, failed, last_tag = Signal(), Signal(), Signal(TAG)
        m.d.comb += [
            taken.eq(self.rvalid & self.rready),
            tags.pop.eq(taken & self.rlast),
            fifo.i.valid.eq(taken & ~tag.kv),
            fifo.i.p.eq(self.rdata),
            kv.i.valid.eq(taken & tag.kv),
            kv.i.p.eq(self.rdata),
            self.kv.valid.eq(kv.o.valid & ~self.abort),
            self.kv.p.eq(kv.o.p),
            kv.o.ready.eq(self.kv.ready | self.abort),
            self.quiet.eq(tags.empty & ~failed),
        ]
        m.d.sync += [
            self.rready.eq(kv.level <= KV_WAITING - KV_SLACK),
            self.freed.eq(fifo.o.valid & fifo.o.ready),
            self.kv_taken.eq(taken & tag.kv),
            ended.eq(tags.pop),
            failed.eq(taken & (self.rresp != RESP_OKAY)),
            last_tag.eq(tag),
        ]
        beat = Signal(BURST_BITS)  # of the burst; only to check the memory
        with m.If(taken):
            m.d.sync += [
                beat.eq(Mux(self.rlast, 0, beat + 1)),
                Assert(self.rlast == (beat + 1 == tag.beats), "RLAST is not at the end of a burst"),
                Assert(~tags.empty, "a beat that nobody asked for"),
            ]
        self._count(m, last_tag, ended)
        with m.If(failed & ~self.fault):
            pointer = Mux(last_tag.io, self.io_pointer, self.pointer)
            m.d.sync += [
                self.fault.eq(1),
                self.fault_address.eq(
                    byte_address(pointer, last_tag.address, engine.beat_bytes)[:FAULT_BITS]
                ),
            ]
        return m

    def _count(self, m, tag, ended):
        """Beats of each kind of traffic; a counter that was not touched since `clear` is zero."""
        m.submodules.counts = counts = Memory(shape=32, depth=16, init=[])
        old, probe = counts.read_port(domain="comb"), counts.read_port(domain="comb")
        write = counts.write_port()
        touched = Signal(16)
        m.d.comb += [
            old.addr.eq(tag.traffic),
            write.addr.eq(tag.traffic),
            write.en.eq(ended),
            write.data.eq(Mux(touched.bit_select(tag.traffic, 1), old.data, 0) + tag.beats),
            probe.addr.eq(self.count_index),
        ]
        m.d.sync += self.count.eq(Mux(touched.bit_select(self.count_index, 1), probe.data, 0))
        with m.If(self.clear):
            m.d.sync += touched.eq(0)
        with m.Elif(ended):
            m.d.sync += touched.bit_select(tag.traffic, 1).eq(1)
