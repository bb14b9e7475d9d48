"""One channel: everything that works at the rate of one HBM pseudo-channel.

commands ─┬─► gather ◄── vector buffer ◄── broadcast          ┌─► drain bus
          │     │ rows        │ items                         │
          ├─► fetch ──AR──►   ▼                               │
          │     ▲ R ──► read FIFO ─► lane group ──────────────┤
kv ───────┼─► loader ─► arrivals ─► attention (staging) ──────┘
          └───────────────────────────────┴─► writer ──AW/W──►
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import connect, flipped

from ..config import Engine
from ..lib.queue import Queue
from ..types import (
    BroadcastKind,
    ChannelCommand,
    DrainRequest,
    Item,
    KvCommand,
    Source,
    Work,
    broadcast_layout,
)
from .attention import COMMANDS, AttentionEngine
from .channel_ports import channel_signature
from .fetch import Fetch
from .gather import Gather
from .lane_control import COMMAND_MEMBERS
from .lanes import LaneGroup
from .loader import Loader
from .place import GroupColumnTable
from .writer import Writer

COMMAND_QUEUE = 16  # commands a channel holds for each of its parts
COMMAND_SLACK = 6  # of these, room that the dispatcher cannot see in time
# What each part wants to know of a command: its queue holds no more.
COMMAND_PARTS = {
    "gather": ("work", "stream", "words", "log_groups", "columns", "count"),
    "fetch": tuple(data.Layout.cast(ChannelCommand).members),
    "lanes": COMMAND_MEMBERS,
}
LOADER_PARTS = ("base", "stage", "load", "slot")
KV_QUEUE = COMMANDS
KV_SLACK = 3
INPUT_REGISTERS = 1  # on commands, broadcast words and drain requests
OUTPUT_REGISTERS = 1  # on the pulses of finished operations and on the drain
ITEM_SLACK = 1  # items that may come before their level shows
WRITE_SLACK = 24  # beats the io writers may still send after they saw room


class Channel(wiring.Component):
    """Fetch, gather, lane group, attention and writer of one pseudo-channel.

    Inputs from the sequencer are pulses without back-pressure; `*_room` says, some cycles late, that a few
    more fit.

    Attributes
    ----------
    DRAIN_LATENCY : int
        Cycles from `request` to `drain`.
    DRAIN_GUARD : int
        Least cycles from `op_done` to the first `request` for the operation's results.

    Members
    -------
    index : In
        Number of the channel; constant.
    pointer, io_pointer : In
        Byte addresses of its buffer and of the io buffer; stable during a run.
    ring, logit_base : In
        Shape of the KV ring, first beat of the channel's logits; quasi-static.
    command_valid, command, command_room / kv_valid, kv, kv_room : In, In, Out
    cast_valid, cast : In
        Broadcast word. WRITE words are taken by channel 0 only; `write_room` says that there is room for
        them.
    request_valid, request : In
    drain_valid, drain : Out
        DrainPort, zero if the request is for another column or nothing was asked.
    side_valid : Out
        A DIRECT_READ beat is in the low lanes of `drain`; never while a drain is answered.
    op_done, attention_done : Out
        Pulses: the results of a MATRIX or HEAD command, of a KvCommand, are complete before a drain request
        that follows reaches them (`DRAIN_GUARD`, `AttentionEngine.DRAIN_AFTER`).
    clear : In
        Zero the traffic counters.
    abort, quiet, write_quiet : In, Out, Out
        Stop issuing; nothing outstanding; no write outstanding.
    fault, fault_write, fault_address : Out
    bus : Out(AxiMaster)
    """

    DRAIN_LATENCY = LaneGroup.DRAIN_LATENCY + 2
    DRAIN_GUARD = LaneGroup.DRAIN_GUARD - OUTPUT_REGISTERS - INPUT_REGISTERS

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(channel_signature(engine))

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.gather = self._gather = Gather(engine)
        m.submodules.fetch = self._fetch = Fetch(engine)
        m.submodules.lanes = self._lanes = LaneGroup(engine=engine)
        m.submodules.loader = self._loader = Loader(engine)
        m.submodules.attention = self._attention = AttentionEngine(engine=engine)
        m.submodules.writer = self._writer = Writer(engine)
        self._places = []
        for number in range(2):
            m.submodules[f"places_{number}"] = places = GroupColumnTable()
            m.d.comb += places.index.eq(self.index)
            self._places += places.ask
        self._commands(m)
        self._ring(m)
        self._flows(m)
        self._drains(m)
        self._bus(m)
        return m

    def _place(self, m, columns):
        """(group, column) for `columns`, a cycle later."""
        place = self._places.pop()
        m.d.comb += place.columns.eq(columns)
        return place.group, place.column

    def _taken_part(self, m, unit, log_groups):
        """Place of this channel in the unit's current command; a group beyond the last takes no part."""
        group, _column = self._place(m, unit.columns)
        m.d.comb += [unit.group.eq(group), unit.active.eq((group >> log_groups) == 0)]

    @staticmethod
    def _queue(m, name, command, unit, members, depth):
        """A queue in front of `unit`, of these members of `command` alone: the others are 0 behind it."""
        fields = data.Layout.cast(command.shape()).members
        layout = data.StructLayout({member: fields[member] for member in members})
        m.submodules[f"{name}_commands"] = queue = Queue(layout, depth=depth)
        m.d.comb += [unit.valid.eq(queue.o.valid), queue.o.ready.eq(unit.ready)]
        for member in members:
            m.d.comb += [queue.i.p[member].eq(command[member]), unit.p[member].eq(queue.o.p[member])]
        return queue

    def _commands(self, m):
        """Commands to the queues of the three parts that work them; a part's queue is as deep as the room
        that is promised."""
        valid, command = Signal(), Signal(ChannelCommand, reset_less=True)
        m.d.sync += valid.eq(self.command_valid)
        with m.If(self.command_valid):
            m.d.sync += command.eq(self.command)
        work_items = (command.work == Work.MATRIX) | (command.work == Work.HEAD)
        level = []
        for name, unit, wanted in (
            ("gather", self._gather.commands, work_items),
            ("fetch", self._fetch.commands, 1),
            ("lanes", self._lanes.commands, 1),
        ):
            queue = self._queue(m, name, command, unit, COMMAND_PARTS[name], COMMAND_QUEUE)
            m.d.comb += queue.i.valid.eq(valid & wanted)
            level.append(queue.level)
            with m.If(queue.i.valid):
                m.d.sync += Assert(queue.i.ready, "command queue overflow")
        m.d.sync += self.command_room.eq(Cat(depth <= COMMAND_QUEUE - COMMAND_SLACK for depth in level).all())
        self._taken_part(m, self._gather, self._gather.log_groups)
        self._taken_part(m, self._fetch, self._fetch.log_groups)
        m.d.comb += [self._fetch.index.eq(self.index), self._lanes.index.eq(self.index)]
        m.d.comb += self._lanes.logit_base.eq(self.logit_base)

    def _ring(self, m):
        """KV commands to loader and attention, and this channel's place in the ring."""
        levels = []
        valid, command = Signal(), Signal(KvCommand, reset_less=True)
        m.d.sync += [valid.eq(self.kv_valid), command.eq(self.kv)]
        queue = self._queue(m, "loader", command, self._loader.commands, LOADER_PARTS, KV_QUEUE)
        m.d.comb += self._attention.commands.p.eq(command)
        for entry, level in ((queue.i, queue.level), (self._attention.commands, self._attention.level)):
            m.d.comb += entry.valid.eq(valid)
            levels.append(level)
            with m.If(valid):
                m.d.sync += Assert(entry.ready, "KV command queue overflow")
        m.d.sync += self.kv_room.eq(Cat(depth <= KV_QUEUE - KV_SLACK for depth in levels).all())
        group, column = self._place(m, self.ring.columns)
        half, active = Signal(range(self._engine.query_words + 1)), Signal()
        m.d.sync += [
            half.eq(self.ring.heads * self.ring.head_words),
            active.eq((group >> self.ring.log_groups) == 0),
        ]
        for unit in (self._loader, self._attention):
            m.d.comb += [
                unit.ring.eq(self.ring),
                unit.half.eq(half),
                unit.group.eq(group),
                unit.active.eq(active),
            ]
        m.d.comb += self._attention.column.eq(column)

    def _flows(self, m):
        """Streams between the parts, and the broadcast bus."""
        gather, fetch, lanes = self._gather, self._fetch, self._lanes
        loader, attention, writer = self._loader, self._attention, self._writer
        m.submodules.items = items = Queue(Item, depth=self._engine.item_depth, deep=False)
        # Room for an item is known a cycle ahead: the gather's choice of the next word begins with it.
        room = Signal()
        m.d.sync += room.eq(items.level < self._engine.item_depth - ITEM_SLACK)
        m.d.comb += [
            items.i.valid.eq(gather.items.valid & room),
            items.i.p.eq(gather.items.p),
            gather.items.ready.eq(room),
        ]
        connect(m, items.o, lanes.items)
        connect(m, gather.rows, fetch.rows)
        connect(m, fetch.beats, lanes.beats)
        connect(m, loader.runs, fetch.kv_runs)
        connect(m, fetch.kv, loader.beats)
        connect(m, loader.arrivals, attention.arrivals)
        cast_valid, cast = Signal(), Signal(broadcast_layout(self._engine), reset_less=True)
        m.d.sync += cast_valid.eq(self.cast_valid)
        with m.If(self.cast_valid):
            m.d.sync += cast.eq(self.cast)
        io_write = cast_valid & (cast.kind == BroadcastKind.WRITE) & (self.index == 0)
        m.d.comb += [
            gather.word_valid.eq(cast_valid & (cast.kind == BroadcastKind.VECTOR)),
            gather.word.eq(cast.word.as_value()),
            attention.cast.valid.eq(cast_valid),
            attention.cast.payload.eq(cast),
            fetch.kv_issued.eq(loader.issued),
            loader.attended.eq(attention.att_done),
            attention.loaded.eq(loader.loaded),
            loader.writes_quiet.eq(writer.quiet),
            # Words for the io buffer cannot wait, and the sequencer knows that there is room for them.
            writer.i.valid.eq(attention.writes.valid | io_write | lanes.logits.valid),
            attention.writes.ready.eq(writer.i.ready & ~io_write),
            lanes.logits.ready.eq(writer.i.ready & ~attention.writes.valid & ~io_write),
            writer.i.p.eq(lanes.logits.p),
        ]
        with m.If(attention.writes.valid):
            m.d.comb += writer.i.p.eq(attention.writes.p)
        with m.If(io_write):
            m.d.comb += [
                writer.i.p.io.eq(1),
                writer.i.p.address.eq(cast.address),
                writer.i.p.data.eq(cast.word),
            ]
        m.d.sync += self.write_room.eq(writer.level <= WRITE_SLACK)

    def _drains(self, m):
        """Drain requests to the lane group and attention; answers of this column, side beats, counts."""
        lanes, attention, fetch = self._lanes, self._attention, self._fetch
        valid, request = Signal(), Signal(DrainRequest, reset_less=True)
        m.d.sync += valid.eq(self.request_valid)
        with m.If(self.request_valid):
            m.d.sync += [
                request.eq(self.request),
                Assert(
                    self.request.columns >= self._engine.joined,
                    "two channels whose words are joined may answer one request",
                ),
            ]
        _group, column = self._place(m, self.request.columns)
        mine = Signal()
        m.d.comb += mine.eq(valid & (column == request.column))
        for part in (lanes, attention):
            m.d.comb += [
                part.drain.asked.eq(valid),
                part.drain.valid.eq(mine),
                part.drain.request.eq(request),
            ]
        m.d.comb += fetch.count_index.eq(request.address)
        answered, counted = Signal(), Signal()  # as late as the words of lane group and attention
        m.d.sync += [answered.eq(valid), counted.eq(mine & (request.source == Source.COUNTER))]
        count = Cat(fetch.count[:16], C(0, 16), fetch.count[16:])
        # At most one unit answers: another channel's answer may be on the bus, so this one's is zero then.
        parts = [
            *(
                Mux(part.drain.word_valid, part.drain.word.as_value() | part.drain.fixed.as_value(), 0)
                for part in (lanes, attention)
            ),
            Mux(counted, count, 0),
            lanes.side.data.as_value(),
        ]
        word = Signal.like(self.drain.as_value(), reset_less=True)
        m.d.sync += [
            self.drain_valid.eq(answered),
            self.side_valid.eq(lanes.side.valid),
            word.eq(reduce(or_, parts)),
        ]
        m.d.comb += self.drain.as_value().eq(word)
        m.d.sync += [self.op_done.eq(lanes.op_done), self.attention_done.eq(attention.att_done)]

    def _bus(self, m):
        fetch, writer = self._fetch, self._writer
        connect(m, fetch.bus, flipped(self.bus.read))
        connect(m, writer.bus, flipped(self.bus.write))
        abort, clear = Signal(), Signal()
        m.d.sync += [abort.eq(self.abort), clear.eq(self.clear)]
        for unit in (fetch, writer):
            m.d.comb += [
                unit.pointer.eq(self.pointer),
                unit.io_pointer.eq(self.io_pointer),
                unit.abort.eq(abort),
            ]
        m.d.comb += fetch.clear.eq(clear)
        m.d.sync += [
            self.write_quiet.eq(writer.quiet),
            self.quiet.eq(writer.quiet & fetch.quiet),
            self.fault.eq(fetch.fault | writer.fault),
            self.fault_write.eq(writer.fault & ~fetch.fault),
        ]
        with m.If(fetch.fault):
            m.d.sync += self.fault_address.eq(fetch.fault_address)
        with m.Else():
            m.d.sync += self.fault_address.eq(writer.fault_address)
