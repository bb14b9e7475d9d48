"""The KV loader: reads the slots of a layer's ring that attention needs into the staging memory."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..lib.queue import Queue
from ..types import CHANNEL_BITS, KvCommand, RingShape, beat_layout, stage_layout
from .burst import RUN

QUEUE = 8  # commands whose beats are on the way


class Loader(wiring.Component):
    """Issues one run of reads a command and files its beats, k and v of a slot to their halves of the staging
    memory; the current token's slot among them is dropped.

    Throughput: a beat a cycle. Back-pressure: beats wait while the staging memory stores a broadcast word.
    A command starts when fewer than two loaded commands await attention, and no write is outstanding: what an
    earlier pass wrote to the ring is then in memory.

    Members
    -------
    ring, half, group, active : In
        Shape of the ring, beats of k (or v) in a slot, place of this channel; static.
    commands : In(stream of KvCommand)
    runs : Out(stream of RUN)
        Reads for the fetch unit.
    beats : In(stream of beat_layout)
        Their data, in order.
    arrivals : Out(stream of stage_layout)
        Into the staging memory.
    loaded : Out
        Pulse: a slot has arrived completely (its last beat was taken the cycle before).
    issued : Out
        Pulse: all reads of a command were handed to the fetch unit.
    attended : In
        Pulse: attention has finished a command.
    writes_quiet : In
        No write of this channel is outstanding.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "ring": In(RingShape),
                "half": In(range(engine.query_words + 1)),
                "group": In(CHANNEL_BITS),
                "active": In(1),
                "commands": In(stream.Signature(KvCommand)),
                "runs": Out(stream.Signature(RUN)),
                "beats": In(stream.Signature(beat_layout(engine))),
                "arrivals": Out(stream.Signature(stage_layout(engine))),
                "loaded": Out(1),
                "issued": Out(1),
                "attended": In(1),
                "writes_quiet": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Read and file sides work on different commands: what is on the way is described by `filing`.
        work = data.StructLayout(
            {
                "stage": 14,
                "slots": 10,
                "drop": 1,
                "local": 9,
                "none": 1,
                "one": 1,
                "drops_first": 1,  # slots is 0, is 1; the first slot is dropped
            }
        )
        m.submodules.filing = filing = Queue(work, depth=QUEUE)
        head = self.commands.p
        slots, total = Signal(10), Signal(20)
        # commands read and not yet attended; attention may finish one that loads nothing first
        ahead = Signal(signed(3))
        settled = Signal(2)  # cycles the products of this command had
        # Slots s < load with s mod groups = group.
        rounded = Signal(11)
        m.d.comb += rounded.eq(head.load + (1 << self.ring.log_groups) - 1 - self.group)
        m.d.sync += [
            slots.eq(Mux(self.active & (head.load > self.group), rounded >> self.ring.log_groups, 0)),
            total.eq((slots * self.half) << 1),
            settled.eq(Mux(self.commands.valid & ~self.commands.ready, Mux(settled == 3, 3, settled + 1), 0)),
        ]
        go, offered = Signal(), Signal()  # a run once offered stays, whatever is written meanwhile
        quiet, none = Signal(), Signal()  # both of the cycle before
        group_mask = ((1 << self.ring.log_groups) - 1)[:5]
        drops, local = (head.slot & group_mask) == self.group, head.slot >> self.ring.log_groups
        m.d.sync += [quiet.eq(self.writes_quiet), none.eq(total == 0)]
        ready = (settled == 3) & (offered | ((ahead != 2) & quiet)) & filing.i.ready
        m.d.sync += offered.eq(self.runs.valid & ~self.runs.ready)
        m.d.comb += [
            self.runs.valid.eq(ready & self.commands.valid & ~none),
            self.runs.p.address.eq(head.base),
            self.runs.p.beats.eq(total),
            go.eq(ready & self.commands.valid & (none | self.runs.ready)),
            self.commands.ready.eq(go),
            self.issued.eq(go),
            filing.i.valid.eq(go),
            filing.i.p.stage.eq(head.stage),
            filing.i.p.slots.eq(slots),
            filing.i.p.drop.eq(drops),
            filing.i.p.local.eq(local),
            filing.i.p.none.eq(slots == 0),
            filing.i.p.one.eq(slots == 1),
            filing.i.p.drops_first.eq(drops & (local == 0)),
        ]
        with m.If(go & ~self.attended):
            m.d.sync += ahead.eq(ahead + 1)
        with m.Elif(self.attended & ~go):
            m.d.sync += ahead.eq(ahead - 1)
        self._file(m, filing)
        return m

    def _file(self, m, filing):
        """Beats of the oldest command to their half and address, slot by slot: k beats, then v beats.

        Whether a slot is the last one or dropped is known when it begins: for the first one it comes with the
        command.
        """
        head = filing.o.p
        value, beat, offset = Signal(), Signal.like(self.half), Signal(14)  # beat: of this half of the slot
        begin, slot = Signal(14), Signal(10)  # of this slot
        first, half_last = Signal(init=1), Signal.like(self.half)
        final, dropping = Signal(), Signal()  # of this slot, unless it is the first
        empty = filing.o.valid & head.none
        dropped = Mux(first, head.drops_first, dropping)
        taken = self.beats.valid & self.beats.ready
        m.d.sync += [self.loaded.eq(0), half_last.eq(self.half - 1)]
        m.d.comb += [
            self.arrivals.valid.eq(self.beats.valid & filing.o.valid & ~empty & ~dropped),
            self.arrivals.p.value.eq(value),
            self.arrivals.p.address.eq(head.stage + offset),
            self.arrivals.p.data.eq(self.beats.p),
            self.beats.ready.eq(filing.o.valid & ~empty & (dropped | self.arrivals.ready)),
        ]
        half_done = beat == half_last
        last_beat = half_done & value
        last = last_beat & Mux(first, head.one, final)
        m.d.comb += filing.o.ready.eq(empty | (taken & last))
        with m.If(taken):
            m.d.sync += [offset.eq(offset + 1), beat.eq(beat + 1)]
            with m.If(half_done):
                m.d.sync += [beat.eq(0), value.eq(~value)]
            with m.If(half_done & ~value):
                m.d.sync += offset.eq(begin)
            with m.If(last_beat):
                m.d.sync += [
                    begin.eq(offset + 1),
                    slot.eq(slot + 1),
                    self.loaded.eq(1),
                    first.eq(0),
                    final.eq(slot + 2 == head.slots),
                    dropping.eq(head.drop & (slot + 1 == head.local)),
                ]
            with m.If(last):
                m.d.sync += [offset.eq(0), begin.eq(0), slot.eq(0), first.eq(1)]
