"""From commands and rows to runs of consecutive beats: the address side of a channel's commands."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Engine
from ..types import BEAT_ADDRESS, CHANNEL_BITS, COLUMN_BITS, TRAFFIC_BITS, ChannelCommand, Work
from .burst import RUN
from .gather import ROW

SCALE_BEATS = 2  # beats of scales behind a head tile


class Runs(wiring.Component):
    """Commands in order to runs of beats: the rows of a gather one by one, everything else as one run.

    Behind the rows of each tile of a HEAD command come its scales as a run of their own.

    A FENCE waits for one KV command whose reads are issued. `traffic` and `io` hold for the runs that follow;
    if they differ, a command starts only when the runs of the one before it have left the merger (`idle`).
    Throughput: a row a cycle, two cycles more for the scales of a tile. Latency: 1 cycle from a row to its
    run.
    """

    SETTLING = 4  # cycles a command needs before its first run: place, factors, product, sum

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "commands": In(stream.Signature(ChannelCommand)),
                "columns": Out(COLUMN_BITS),
                "log_groups": Out(3),
                "group": In(CHANNEL_BITS),
                "active": In(1),
                "index": In(CHANNEL_BITS),
                "rows": In(stream.Signature(ROW)),
                "issued": In(1),
                "fenced": Out(1),
                "fencing": Out(1),
                "runs": Out(stream.Signature(RUN)),
                "traffic": Out(TRAFFIC_BITS),
                "io": Out(1),
                "idle": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        head = self.commands.p
        m.d.comb += [self.columns.eq(head.columns), self.log_groups.eq(head.log_groups)]
        self._tile, self._first_scales = Signal(15), Signal.like(head.base)
        total, settled = self._total(m, head)
        beats, tiles = Signal.like(total), Signal.like(head.count)
        # Where rows begin or one run does, and of a HEAD command by rows where the next scales or rows do:
        # they take turns. The offset is a row's, and 0 for other runs, so one sum makes every address.
        place, other, offset = Signal.like(head.base), Signal.like(head.base), Signal(BEAT_ADDRESS)
        m.d.sync += self._first_scales.eq(head.base + (head.words << exact_log2(self._engine.lanes)))
        credits = Signal(3)  # KV commands issued and not fenced
        with m.If(self.issued & ~self.fenced):
            m.d.sync += [credits.eq(credits + 1), Assert(credits != 7, "KV commands without fences")]
        with m.Elif(self.fenced & ~self.issued):
            m.d.sync += credits.eq(credits - 1)
        run, free = self.runs, self.runs.ready
        m.d.comb += run.p.address.eq(place + offset)
        turn = [place.eq(other), other.eq(place + self._tile)]  # the tile's beats: the product's first factor
        with m.FSM() as fsm:
            with m.State("COMMAND"):
                same = (self.traffic == head.traffic) & (self.io == head.io)
                with m.If(self.commands.valid & settled & (same | self.idle)):
                    m.d.sync += [self.traffic.eq(head.traffic), self.io.eq(head.io)]
                    m.d.sync += [place.eq(head.base), beats.eq(total)]
                    m.d.sync += [other.eq(self._first_scales), tiles.eq(head.count - 1)]
                    with m.If(head.work == Work.FENCE):
                        m.next = "FENCE"
                    with m.Elif(((head.work == Work.MATRIX) | (head.work == Work.HEAD)) & ~head.stream):
                        m.next = "ROWS"
                    with m.Else():
                        m.next = "STREAM"
            with m.State("FENCE"):
                with m.If(credits != 0):
                    m.d.comb += [self.fenced.eq(1), self.commands.ready.eq(1)]
                    m.next = "COMMAND"
            with m.State("STREAM"):
                with m.If((beats == 0) | free):
                    m.d.comb += self.commands.ready.eq(1)
                    m.next = "COMMAND"
                m.d.comb += [run.valid.eq(beats != 0), run.p.beats.eq(beats)]
            with m.State("ROWS"):
                with m.If(self._rows(m, head, offset, run)):
                    m.d.sync += [*turn, offset.eq(0)]
                    m.next = "SCALES"
                    with m.If(head.work == Work.MATRIX):
                        m.d.comb += self.commands.ready.eq(1)
                        m.next = "COMMAND"
            with m.State("SCALES"):
                m.d.comb += [run.valid.eq(1), run.p.beats.eq(SCALE_BEATS)]
                with m.If(free):
                    m.d.sync += [*turn, tiles.eq(tiles - 1)]
                    m.next = "ROWS"
                    with m.If(tiles == 0):
                        m.d.comb += self.commands.ready.eq(1)
                        m.next = "COMMAND"
        m.d.comb += self.fencing.eq(fsm.ongoing("FENCE"))
        return m

    def _total(self, m, head):
        """Beats of the command if it is one run, and whether that has settled (place, factors, product,
        choice)."""
        shift = exact_log2(self._engine.lanes)
        factor_a, factor_b, total = self._tile, Signal(12), Signal(BEAT_ADDRESS)
        product, takes_part = Signal(BEAT_ADDRESS), Signal()
        cycles = Signal(range(self.SETTLING + 1))
        rows = head.words << shift
        m.d.sync += [
            factor_a.eq(rows >> head.log_groups),
            factor_b.eq(head.beats),
            takes_part.eq(self.active),
            product.eq(factor_a * factor_b),
            total.eq(Mux(takes_part, product, 0)),
            cycles.eq(Mux(cycles == self.SETTLING, cycles, cycles + 1)),
        ]
        with m.If(head.work == Work.HEAD):
            m.d.sync += [factor_a.eq(rows + SCALE_BEATS), factor_b.eq(head.count), takes_part.eq(1)]
        with m.If((head.work == Work.DIRECT_READ) | (head.work == Work.FENCE)):
            m.d.sync += [factor_a.eq(1), factor_b.eq(head.count), takes_part.eq(head.channel == self.index)]
        with m.If(~self.commands.valid | self.commands.ready):
            m.d.sync += cycles.eq(0)
        return total, cycles == self.SETTLING

    def _rows(self, m, head, offset, run):
        """A row a cycle: its offset is multiplied in one stage, its address added in the next. Returns "the
        last has left"."""
        there, valid, last = Signal(), Signal(), Signal()
        move = ~there | ~valid | run.ready
        m.d.comb += self.rows.ready.eq(move & ~(there & last))
        with m.If(move):
            m.d.sync += there.eq(self.rows.valid & self.rows.ready)
        with m.If(self.rows.valid & self.rows.ready):
            m.d.sync += [
                offset.eq(self.rows.p.row * head.beats),
                valid.eq(self.rows.p.valid),
                last.eq(self.rows.p.last),
            ]
        m.d.comb += [run.valid.eq(there & valid), run.p.beats.eq(head.beats)]
        return there & last & move
