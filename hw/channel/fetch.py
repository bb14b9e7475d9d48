"""HBM weight fetch: the AXI read side of one channel.

commands, rows ─► runs ─► merger ─► bursts ─┐
KV runs ─────────────────► merger ─► bursts ┴─► AR (credit, tags)      R ─► receiver ─┬─► beats
                                                                                      └─► KV beats
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..axi import ADDRESS_BITS, BURST_INCR, FAULT_BITS, LENGTH_BITS, MAX_BURST, AxiRead, byte_address
from ..config import Engine
from ..interface import Traffic
from ..lib.slice import Slice
from ..types import CHANNEL_BITS, COLUMN_BITS, TRAFFIC_BITS, ChannelCommand, beat_layout
from .burst import RUN, BurstMerger
from .gather import ROW
from .receive import TAGS, Receiver
from .runs import Runs

ADDRESSED = data.StructLayout({"address": ADDRESS_BITS, "len": LENGTH_BITS})  # a burst as AR has it


class Fetch(wiring.Component):
    """Reads of one channel in program order, KV runs in between.

    A weight burst is issued only when its beats are reserved in the read FIFO, so R never waits for the
    lanes; KV beats may wait for the staging memory. KV bursts go when no weight burst is ready, at most
    `engine.kv_inflight` beats in flight, or without limit while a FENCE waits.
    Throughput: a burst and a beat a cycle.

    Attributes
    ----------
    LATENCY : int
        Cycles from a row to its address on AR.
    COMMAND_LATENCY : int
        Cycles from a command of one run, behind idle parts, to its first address on AR.
    BEAT_LATENCY : int
        Cycles from R to `beats`.

    Members
    -------
    commands, columns, group, active, index : as `Gather`
    rows : In(stream of ROW)
    kv_runs : In(stream of RUN), kv_issued : In
        From the loader; `kv_issued` is its pulse for a whole command.
    kv : Out(stream of beat_layout)
    beats : Out(stream of beat_layout)
    pointer, io_pointer : In
        Byte addresses; stable while anything is outstanding.
    count_index, count, clear : In, Out, In
        Beats read of a traffic kind, one cycle later; `clear` zeroes them.
    abort : In
        No new bursts; what arrives is discarded.
    quiet : Out
        No burst is on AR or in flight.
    fault, fault_address : Out
        A response was not OKAY; low half of the address of its burst. Held until reset.
    bus : Out(AxiRead)
    """

    LATENCY = 1 + BurstMerger.LATENCY + 1
    COMMAND_LATENCY = Runs.SETTLING + 1 + BurstMerger.LATENCY + 1
    BEAT_LATENCY = Receiver.LATENCY

    def __init__(self, engine: Engine):
        self._engine = engine
        beat = beat_layout(engine)
        super().__init__(
            {
                "commands": In(stream.Signature(ChannelCommand)),
                "columns": Out(COLUMN_BITS),
                "log_groups": Out(3),
                "group": In(CHANNEL_BITS),
                "active": In(1),
                "index": In(CHANNEL_BITS),
                "rows": In(stream.Signature(ROW)),
                "kv_runs": In(stream.Signature(RUN)),
                "kv_issued": In(1),
                "kv": Out(stream.Signature(beat)),
                "beats": Out(stream.Signature(beat)),
                "pointer": In(ADDRESS_BITS),
                "io_pointer": In(ADDRESS_BITS),
                "count_index": In(TRAFFIC_BITS),
                "count": Out(32),
                "clear": In(1),
                "abort": In(1),
                "quiet": Out(1),
                "fault": Out(1),
                "fault_address": Out(FAULT_BITS),
                "bus": Out(AxiRead(engine.beat_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.runs = self._runs = runs = Runs(engine)
        m.submodules.merger = merger = BurstMerger(engine)
        m.submodules.kv_merger = kv_merger = BurstMerger(engine, merges=False)
        m.submodules.receiver = self._receiver = receiver = Receiver(engine)
        connect(m, flipped(self.commands), runs.commands)
        connect(m, flipped(self.rows), runs.rows)
        connect(m, runs.runs, merger.i)
        connect(m, receiver.beats, flipped(self.beats))
        connect(m, receiver.kv, flipped(self.kv))
        m.d.comb += [
            self.columns.eq(runs.columns),
            self.log_groups.eq(runs.log_groups),
            runs.group.eq(self.group),
            runs.active.eq(self.active),
            runs.index.eq(self.index),
            runs.idle.eq(merger.idle),
            receiver.rdata.eq(self.bus.rdata),
            receiver.rresp.eq(self.bus.rresp),
            receiver.rlast.eq(self.bus.rlast),
            receiver.rvalid.eq(self.bus.rvalid),
            self.bus.rready.eq(receiver.rready),
            receiver.pointer.eq(self.pointer),
            receiver.io_pointer.eq(self.io_pointer),
            receiver.abort.eq(self.abort),
            receiver.clear.eq(self.clear),
            receiver.count_index.eq(self.count_index),
            self.count.eq(receiver.count),
            self.quiet.eq(receiver.quiet),
            self.fault.eq(receiver.fault),
            self.fault_address.eq(receiver.fault_address),
        ]
        self._issue(m, merger, kv_merger)
        self._fence(m, kv_merger)
        return m

    def _issue(self, m, merger, kv_merger):
        """The next burst to AR: weights first, KV when they wait."""
        engine, runs, receiver = self._engine, self._runs, self._receiver
        m.submodules.output = output = Slice(ADDRESSED)
        # Beats that may still be asked for, and whether they are enough for any burst; KV beats on the way,
        # and whether there may be another burst: known a cycle after the one before it.
        credit = Signal(range(engine.read_beats + 1), init=engine.read_beats)
        kv_flying = Signal(range(TAGS * MAX_BURST + 1))
        plenty, within = Signal(init=1), Signal(init=1)
        main, kv, tags = merger.o, kv_merger.o, receiver.tags
        main_go, kv_go = Signal(), Signal()
        # Of the runs' buffer, a cycle behind `io`, which changes before the runs come.
        pointer = Signal(ADDRESS_BITS)
        m.d.sync += pointer.eq(Mux(runs.io, self.io_pointer, self.pointer))
        free = output.i.ready & tags.ready & ~self.abort
        # the choice does not depend on what allows the burst to go: addresses are summed meanwhile
        weights = Signal()
        m.d.comb += [
            weights.eq(main.valid & plenty),
            main_go.eq(free & weights),
            kv_go.eq(free & ~weights & kv.valid & (within | runs.fencing)),
            main.ready.eq(main_go),
            kv.ready.eq(kv_go),
            tags.valid.eq(main_go | kv_go),
            tags.p.kv.eq(~weights),
            tags.p.io.eq(weights & runs.io),
            tags.p.address.eq(Mux(weights, main.p.address, kv.p.address)),
            tags.p.beats.eq(Mux(weights, main.p.beats, kv.p.beats)),
            tags.p.traffic.eq(Mux(weights, runs.traffic, Traffic.KV)),
            output.i.valid.eq(main_go | kv_go),
            output.i.p.len.eq(Mux(weights, main.p.less_one, kv.p.less_one)),
            output.i.p.address.eq(
                Mux(
                    weights,
                    byte_address(pointer, main.p.address, engine.beat_bytes),
                    byte_address(self.pointer, kv.p.address, engine.beat_bytes),
                )
            ),
            self.bus.arvalid.eq(output.o.valid),
            output.o.ready.eq(self.bus.arready),
            self.bus.araddr.eq(output.o.p.address),
            self.bus.arlen.eq(output.o.p.len),
            self.bus.arsize.eq(engine.beat_bytes.bit_length() - 1),
            self.bus.arburst.eq(BURST_INCR),
        ]

        def flagged(value):
            value = value[: len(credit)]
            return Cat(value, value[exact_log2(MAX_BURST) :].any())

        # All sums are there when the decisions are.
        m.d.sync += Cat(credit, plenty).eq(
            Mux(
                main_go,
                Mux(receiver.freed, flagged(credit - main.p.less_one), flagged(credit - main.p.beats)),
                Mux(receiver.freed, flagged(credit + 1), flagged(credit)),
            )
        )
        m.d.sync += kv_flying.eq(
            Mux(
                kv_go,
                Mux(receiver.kv_taken, kv_flying + kv.p.less_one, kv_flying + kv.p.beats),
                Mux(receiver.kv_taken, kv_flying - 1, kv_flying),
            )
        )
        m.d.sync += within.eq((kv_flying <= engine.kv_inflight - MAX_BURST) & ~kv_go)

    def _fence(self, m, kv_merger):
        """The fence opens when a command's run has left the merger.

        The run of the next command waits for that: following without a gap, it would hide the end, and the
        fence would wait for it, too.
        """
        waiting = Signal(3)
        settled = Signal(2)
        empty, gate = kv_merger.idle, (waiting == 0) & kv_merger.free
        m.d.comb += [
            kv_merger.i.valid.eq(self.kv_runs.valid & gate),
            kv_merger.i.p.eq(self.kv_runs.p),
            self.kv_runs.ready.eq(kv_merger.i.ready & gate),
        ]
        m.d.sync += settled.eq(Mux(empty, Mux(settled == 3, 3, settled + 1), 0))
        opened = (waiting != 0) & empty & (settled != 0)
        with m.If(self.kv_issued & ~opened):
            m.d.sync += waiting.eq(waiting + 1)
        with m.Elif(opened & ~self.kv_issued):
            m.d.sync += waiting.eq(waiting - 1)
        m.d.comb += self._runs.issued.eq(opened)
