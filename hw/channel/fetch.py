"""HBM weight fetch: the AXI read side of one channel.

    commands, rows ─► runs ─► merger ─► bursts ─┐
    KV runs ─────────────────► merger ─► bursts ┴─► AR (credit, tags)      R ─► tag ─┬─► read FIFO ─► beats
                                                                                     └─► KV beats
"""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from ..axi import BURST_INCR, MAX_BURST, RESP_OKAY, byte_address
from ..config import Engine
from ..interface import Traffic
from ..lib import Queue, Slice
from ..types import BEAT_ADDRESS, ChannelCommand, Work, beat_layout
from .burst import RUN, BurstMerger
from .gather import ROW

TAGS = 64           # bursts in flight
SCALE_BEATS = 2     # beats of scales behind a head tile
KV_WAITING = 4      # KV beats that wait for the loader

TAG = data.StructLayout({"kv": 1, "io": 1, "address": BEAT_ADDRESS, "beats": 5, "traffic": 4})


class _Runs(wiring.Component):
    """Commands in order to runs of beats: the rows of a gather one by one, everything else as one run.

    A FENCE waits for one KV command whose reads are issued. `traffic` and `io` hold for the runs that follow;
    if they differ, a command starts only when the runs of the one before it have left the merger (`idle`).
    Throughput: a row a cycle. Latency: 2 cycles from a row to its run.
    """

    SETTLING = 4        # cycles a command needs before its first run: place, factors, product, sum

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__({
            "commands": In(stream.Signature(ChannelCommand)), "columns": Out(6), "log_groups": Out(3),
            "group": In(5), "active": In(1),
            "index": In(5), "rows": In(stream.Signature(ROW)), "issued": In(1), "fenced": Out(1),
            "fencing": Out(1),
            "runs": Out(stream.Signature(RUN)), "traffic": Out(4), "io": Out(1), "idle": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        head = self.commands.p
        m.d.comb += [self.columns.eq(head.columns), self.log_groups.eq(head.log_groups)]
        total, settled = self._total(m, head)
        base = Signal.like(head.base)
        credits = Signal(3)         # KV commands issued and not fenced
        with m.If(self.issued & ~self.fenced):
            m.d.sync += [credits.eq(credits + 1), Assert(credits != 7, "KV commands without fences")]
        with m.Elif(self.fenced & ~self.issued):
            m.d.sync += credits.eq(credits - 1)
        m.submodules.output = output = Slice(RUN)   # the merger's decision to take a run ends here
        connect(m, output.o, flipped(self.runs))
        run, free = output.i, output.i.ready
        with m.FSM() as fsm:
            with m.State("COMMAND"):
                same = (self.traffic == head.traffic) & (self.io == head.io)
                with m.If(self.commands.valid & settled & (same | (self.idle & ~output.o.valid))):
                    m.d.sync += [self.traffic.eq(head.traffic), self.io.eq(head.io), base.eq(head.base)]
                    with m.If(head.work == Work.FENCE):
                        m.next = "FENCE"
                    with m.Elif((head.work == Work.MATRIX) & ~head.stream):
                        m.next = "ROWS"
                    with m.Else():
                        m.next = "STREAM"
            with m.State("FENCE"):
                with m.If(credits != 0):
                    m.d.comb += [self.fenced.eq(1), self.commands.ready.eq(1)]
                    m.next = "COMMAND"
            with m.State("STREAM"):
                with m.If((total == 0) | free):
                    m.d.comb += self.commands.ready.eq(1)
                    m.next = "COMMAND"
                m.d.comb += [run.valid.eq(total != 0), run.p.address.eq(base), run.p.beats.eq(total)]
            with m.State("ROWS"):
                with m.If(self._rows(m, head, base, run)):
                    m.d.comb += self.commands.ready.eq(1)
                    m.next = "COMMAND"
        m.d.comb += self.fencing.eq(fsm.ongoing("FENCE"))
        return m

    def _total(self, m, head):
        """Beats of the command if it is one run, and whether that has settled (place, factors, product,
        choice)."""
        shift = self._engine.lanes.bit_length() - 1
        factor_a, factor_b, total = Signal(15), Signal(12), Signal(BEAT_ADDRESS)
        product, takes_part = Signal(BEAT_ADDRESS), Signal()
        cycles = Signal(range(self.SETTLING + 1))
        rows = head.words << shift
        m.d.sync += [
            factor_a.eq(rows >> head.log_groups), factor_b.eq(head.beats), takes_part.eq(self.active),
            product.eq(factor_a * factor_b), total.eq(Mux(takes_part, product, 0)),
            cycles.eq(Mux(cycles == self.SETTLING, cycles, cycles + 1)),
        ]
        with m.If(head.work == Work.HEAD):
            m.d.sync += [factor_a.eq(rows + SCALE_BEATS), factor_b.eq(head.count), takes_part.eq(1)]
        with m.If((head.work == Work.SIDE) | (head.work == Work.FENCE)):
            m.d.sync += [factor_a.eq(1), factor_b.eq(head.count), takes_part.eq(head.channel == self.index)]
        with m.If(~self.commands.valid | self.commands.ready):
            m.d.sync += cycles.eq(0)
        return total, cycles == self.SETTLING

    def _rows(self, m, head, base, run):
        """A row a cycle: its offset is multiplied in one stage, its address added in the next. Returns "the
        last has left"."""
        product, there, valid, last = Signal(BEAT_ADDRESS), Signal(), Signal(), Signal()
        move = ~there | ~valid | run.ready
        m.d.comb += self.rows.ready.eq(move & ~(there & last))
        with m.If(move):
            m.d.sync += there.eq(self.rows.valid & self.rows.ready)
        with m.If(self.rows.valid & self.rows.ready):
            m.d.sync += [
                product.eq(self.rows.p.row * head.beats), valid.eq(self.rows.p.valid),
                last.eq(self.rows.p.last),
            ]
        m.d.comb += [
            run.valid.eq(there & valid), run.p.address.eq(base + product), run.p.beats.eq(head.beats),
        ]
        return there & last & move


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
        A response was not OKAY; address of its burst. Held until reset.
    ar*, r* : AXI4, see `axi.AxiMaster`
    """

    LATENCY = 2 + BurstMerger.LATENCY + 1
    COMMAND_LATENCY = _Runs.SETTLING + 2 + BurstMerger.LATENCY + 1
    BEAT_LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        beat = beat_layout(engine)
        super().__init__({
            "commands": In(stream.Signature(ChannelCommand)), "columns": Out(6), "log_groups": Out(3),
            "group": In(5), "active": In(1),
            "index": In(5), "rows": In(stream.Signature(ROW)),
            "kv_runs": In(stream.Signature(RUN)), "kv_issued": In(1), "kv": Out(stream.Signature(beat)),
            "beats": Out(stream.Signature(beat)),
            "pointer": In(64), "io_pointer": In(64),
            "count_index": In(4), "count": Out(32), "clear": In(1),
            "abort": In(1), "quiet": Out(1), "fault": Out(1), "fault_address": Out(64),
            "araddr": Out(64), "arlen": Out(8), "arsize": Out(3), "arburst": Out(2), "arvalid": Out(1),
            "arready": In(1),
            "rdata": In(8 * engine.beat_bytes), "rresp": In(2), "rlast": In(1), "rvalid": In(1),
            "rready": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.runs = self._runs = runs = _Runs(engine)
        m.submodules.merger = merger = BurstMerger(engine)
        m.submodules.kv_merger = kv_merger = BurstMerger(engine)
        m.submodules.tags = self._tags = Queue(TAG, depth=TAGS)
        m.submodules.kv_slice = self._kv_slice = kv_slice = Slice(RUN)
        m.submodules.kv_queue = self._kv_queue = Queue(beat_layout(engine), depth=KV_WAITING)
        m.submodules.fifo = self._fifo = Queue(beat_layout(engine), depth=engine.read_beats)
        connect(m, flipped(self.commands), runs.commands)
        connect(m, flipped(self.rows), runs.rows)
        connect(m, runs.runs, merger.i)
        connect(m, kv_slice.o, kv_merger.i)
        connect(m, self._fifo.o, flipped(self.beats))
        m.d.comb += [
            self.columns.eq(runs.columns), self.log_groups.eq(runs.log_groups),
            runs.group.eq(self.group), runs.active.eq(self.active), runs.index.eq(self.index),
            runs.idle.eq(merger.idle & ~self.arvalid),
        ]
        self._issue(m, merger, kv_merger)
        self._receive(m)
        return m

    def _issue(self, m, merger, kv_merger):
        """The next burst to AR: weights first, KV when they wait."""
        engine, runs, tags = self._engine, self._runs, self._tags
        credit = Signal(range(engine.read_beats + 1), init=engine.read_beats)
        kv_flying = Signal(range(TAGS * MAX_BURST + 1))
        main, kv = merger.o, kv_merger.o
        main_go, kv_go = Signal(), Signal()
        pointer = Signal(64)    # of the runs' buffer, a cycle behind `io`, which changes before the runs come
        m.d.sync += pointer.eq(Mux(runs.io, self.io_pointer, self.pointer))
        free = (~self.arvalid | self.arready) & tags.i.ready & ~self.abort
        # the choice does not depend on what allows the burst to go: addresses are summed meanwhile
        weights = Signal()
        within = runs.fencing | (kv_flying <= engine.kv_inflight - MAX_BURST)
        m.d.comb += [
            # credit >= beats, of which there are at most MAX_BURST
            weights.eq(main.valid & (credit[4:].any() | (credit[:4] >= main.p.beats))),
            main_go.eq(free & weights), kv_go.eq(free & ~weights & kv.valid & within),
            main.ready.eq(main_go), kv.ready.eq(kv_go),
            tags.i.valid.eq(main_go | kv_go), tags.i.p.kv.eq(~weights), tags.i.p.io.eq(weights & runs.io),
            tags.i.p.address.eq(Mux(weights, main.p.address, kv.p.address)),
            tags.i.p.beats.eq(Mux(weights, main.p.beats, kv.p.beats)),
            tags.i.p.traffic.eq(Mux(weights, runs.traffic, Traffic.KV)),
            self.arsize.eq(engine.beat_bytes.bit_length() - 1), self.arburst.eq(BURST_INCR),
            self.quiet.eq(~self.arvalid & ~tags.o.valid),
        ]
        with m.If(self.arready):
            m.d.sync += self.arvalid.eq(0)
        with m.If(main_go | kv_go):
            m.d.sync += [
                self.arvalid.eq(1), self.arlen.eq(Mux(weights, main.p.beats - 1, kv.p.beats - 1)),
                self.araddr.eq(Mux(
                    weights, byte_address(pointer, main.p.address, engine.beat_bytes),
                    byte_address(self.pointer, kv.p.address, engine.beat_bytes),
                )),
            ]
        freed = self._fifo.o.valid & self._fifo.o.ready
        self._kv_taken = Signal()
        # All sums are there when the decisions are.
        m.d.sync += credit.eq(Mux(
            main_go, Mux(freed, credit - (main.p.beats - 1), credit - main.p.beats),
            Mux(freed, credit + 1, credit),
        ))
        m.d.sync += kv_flying.eq(Mux(
            kv_go, Mux(self._kv_taken, kv_flying + (kv.p.beats - 1), kv_flying + kv.p.beats),
            Mux(self._kv_taken, kv_flying - 1, kv_flying),
        ))
        # The fence opens when a command's run has left the merger. The run of the next command waits for
        # that:
        # following without a gap, it would hide the end, and the fence would wait for it, too.
        waiting = Signal(3)
        settled = Signal(2)
        kv_slice = self._kv_slice
        empty, gate = kv_merger.idle & ~kv_slice.o.valid, (waiting == 0) & ~kv_slice.o.valid
        m.d.comb += [
            kv_slice.i.valid.eq(self.kv_runs.valid & gate), kv_slice.i.p.eq(self.kv_runs.p),
            self.kv_runs.ready.eq(kv_slice.i.ready & gate),
        ]
        m.d.sync += settled.eq(Mux(empty, Mux(settled == 3, 3, settled + 1), 0))
        opened = (waiting != 0) & empty & (settled != 0)
        with m.If(self.kv_issued & ~opened):
            m.d.sync += waiting.eq(waiting + 1)
        with m.Elif(opened & ~self.kv_issued):
            m.d.sync += waiting.eq(waiting - 1)
        m.d.comb += runs.issued.eq(opened)

    def _receive(self, m):
        """Beats to the read FIFO or the loader, by the oldest tag; faults; counts."""
        tags, fifo, kv = self._tags, self._fifo, self._kv_queue
        tag = tags.o.p
        taken, kv_free = Signal(), Signal()
        connect(m, kv.o, flipped(self.kv))
        m.d.comb += [
            kv_free.eq(kv.i.ready | self.abort),
            self.rready.eq(tags.o.valid & (~tag.kv | kv_free)), taken.eq(self.rvalid & self.rready),
            tags.o.ready.eq(taken & self.rlast), self._kv_taken.eq(taken & tag.kv),
            fifo.i.valid.eq(taken & ~tag.kv), fifo.i.p.eq(self.rdata),
            kv.i.valid.eq(self.rvalid & tags.o.valid & tag.kv & ~self.abort), kv.i.p.eq(self.rdata),
        ]
        beat = Signal(5)        # of the burst; only to check the memory
        with m.If(taken):
            m.d.sync += [
                beat.eq(Mux(self.rlast, 0, beat + 1)),
                Assert(self.rlast == (beat + 1 == tag.beats), "RLAST is not at the end of a burst"),
            ]
        with m.If(fifo.i.valid):
            m.d.sync += Assert(fifo.i.ready, "the read FIFO overflows")
        with m.If(self.rvalid):
            m.d.sync += Assert(tags.o.valid, "a beat that nobody asked for")
        self._count(m, tag, taken & self.rlast)
        with m.If(taken & (self.rresp != RESP_OKAY) & ~self.fault):
            pointer = Mux(tag.io, self.io_pointer, self.pointer)
            m.d.sync += [
                self.fault.eq(1),
                self.fault_address.eq(byte_address(pointer, tag.address, self._engine.beat_bytes)),
            ]

    def _count(self, m, tag, ended):
        """Beats of each kind of traffic; a counter that was not touched since `clear` is zero."""
        m.submodules.counts = counts = Memory(shape=32, depth=16, init=[])
        old, probe = counts.read_port(domain="comb"), counts.read_port(domain="comb")
        write = counts.write_port()
        touched = Signal(16)
        m.d.comb += [
            old.addr.eq(tag.traffic), write.addr.eq(tag.traffic), write.en.eq(ended),
            write.data.eq(Mux(touched.bit_select(tag.traffic, 1), old.data, 0) + tag.beats),
            probe.addr.eq(self.count_index),
        ]
        m.d.sync += self.count.eq(Mux(touched.bit_select(self.count_index, 1), probe.data, 0))
        with m.If(self.clear):
            m.d.sync += touched.eq(0)
        with m.Elif(ended):
            m.d.sync += touched.bit_select(tag.traffic, 1).eq(1)
