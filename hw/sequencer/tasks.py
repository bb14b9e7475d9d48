"""The task runner: walks the operation table behind the channels and runs the vector unit.

A task has up to four steps, in this order: words broadcast from memory (spikes before QKV, the head input
before the prior), waiting for the channels, draining, and a second loop (reciprocals before gate fusion come
first, normalise after statistics).
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from ..config import Engine
from ..types import BEATS_BITS, COLUMN_BITS, HEAD_WORDS_BITS, BroadcastKind, Source, Task
from ..vector.words import Route
from .phase_counters import PhaseCounters
from .task_ports import task_signature

TABLE_CYCLES = 3  # cycles from an index to its entry
# Cycles between tasks; the estimate (sim/estimate) counts on them.
ENTER_CYCLES = 2  # from taking an entry over to its first step: words from memory, or the wait
ISSUE_CYCLES = 1  # from all channels done (or the statistics there) to the first word operation
LEAVE_CYCLES = 2  # from `done` to taking the next entry over


class TaskRunner(wiring.Component):
    """Issues word operations and drain requests, task by task, and counts cycles by phase.

    Throughput: a word operation a cycle within a step. From `op_ready` (all channels done) to the first drain
    request: a cycle; from the end of a task to the start of the next: 2 cycles, since the next entry is read
    ahead and counting goes on beside it.

    Parameters
    ----------
    engine : Engine
    reciprocal_latency : int
        Cycles between a WEIGHT word op and the first MIX word op of the same head.

    Members: `task_signature`.
    """

    def __init__(self, engine: Engine, *, reciprocal_latency: int):
        self._engine, self._reciprocal_latency = engine, reciprocal_latency
        super().__init__(task_signature(engine))

    def elaborate(self, platform):
        m = Module()
        m.submodules.phase_counters = self._phase_counters = PhaseCounters(self._engine)
        self._word, self._column = Signal(8), Signal(COLUMN_BITS)
        self._offset = Signal(BEATS_BITS)
        self._sub, self._part = Signal(8), Signal(HEAD_WORDS_BITS)
        self._ending = Signal()  # the next entry is taken over
        self._timer = Signal(range(max(TABLE_CYCLES, self._reciprocal_latency) + 1))
        self._elapsed = Signal(init=1)  # the timer is 0
        self._flying = Signal(range(-4, 4))  # steps whose last word has been issued and is not `done`
        m.d.sync += [
            self.op_valid.eq(0),
            self.request_valid.eq(0),
            self.embed_start.eq(0),
            self.finished.eq(0),
            self.choose.eq(0),
        ]
        with m.If(~self._elapsed):
            m.d.sync += [self._timer.eq(self._timer - 1), self._elapsed.eq(self._timer == 1)]
        self._limits(m)
        with m.FSM() as fsm:
            self._fetch(m)
            self._before(m)
            self._wait(m)
            self._loops(m)
            self._close(m)
        m.d.comb += [
            self.running.eq(~fsm.ongoing("IDLE") | self.go),
            self.embed_active.eq(self._embed & fsm.ongoing("LAST")),
        ]
        # The words of a RESIDUAL step end in the statistics, and EMBED has none: neither is waited for here.
        launched = self.op_valid & self.op.last & (self.op.route != Route.RESIDUAL)
        landed = self.done & ~self.embed_active
        with m.If(self.running):
            with m.If(launched & ~landed):
                m.d.sync += self._flying.eq(self._flying + 1)
            with m.If(landed & ~launched):
                m.d.sync += self._flying.eq(self._flying - 1)
        closing = fsm.ongoing("CLOSE") & ~self._phase_counters.busy
        self._count(m, waiting=fsm.ongoing("WAIT") | self.embed_active, closing=closing)
        return m

    def _start_timer(self, m, cycles: int):
        m.d.sync += [self._timer.eq(cycles), self._elapsed.eq(0)]

    def _limits(self, m):
        """What the loops compare with, a cycle behind the header and the entry: they begin later."""
        header, entry = self.header, self.current
        ring = header.ring_shape
        self._words_last = Signal(8)
        for name, bits, value in (
            ("width_last", 8, header.width_words),
            ("heads_last", BEATS_BITS, ring.heads),
            ("columns_last", COLUMN_BITS, ring.columns),
            ("head_last", HEAD_WORDS_BITS, ring.head_words),
            ("query_last", 8, header.query_words),
            ("slice_last", BEATS_BITS, entry.slice),
        ):
            register = Signal(bits, name=name)
            setattr(self, f"_{name}", register)
            m.d.sync += register.eq(value - 1)
        self._embed, self._mix, self._norm = Signal(), Signal(), Signal()
        self._chooses = Signal()
        task = entry.task
        m.d.sync += [
            self._words_last.eq(Mux(task == Task.HEAD, self._engine.channels, entry.words) - 1),
            self._embed.eq(task == Task.EMBED),
            self._chooses.eq((task == Task.HEAD) & self.chooses),
            self._mix.eq(task == Task.MIX),
            self._norm.eq((task == Task.NORM_U) | (task == Task.NORM_C)),
        ]

    def _fetch(self, m):
        with m.State("IDLE"):
            m.d.sync += [
                self.index.eq(0),
                self.current.task.eq(Task.END),
                self._flying.eq(0),
            ]
            self._start_timer(m, TABLE_CYCLES)
            with m.If(self.go):
                m.next = "FETCH"
        # the entry was asked for when the last task started, so it is mostly there
        with m.State("FETCH"):
            with m.If(self._elapsed & ~self._phase_counters.busy):
                m.d.comb += self._ending.eq(1)
                m.d.sync += [
                    self.current.eq(self.entry),
                    self._word.eq(0),
                    self._column.eq(0),
                    self._offset.eq(0),
                    self._sub.eq(0),
                    self._part.eq(0),
                    self.index.eq(self.index + 1),
                ]
                self._start_timer(m, TABLE_CYCLES)
                m.next = "START"
        with m.State("START"):
            task = self.current.task
            with m.If(task == Task.END):
                m.next = "CLOSE"
            with m.Elif(self.current.head & ~self.head_pass):
                m.next = "FETCH"
            with m.Elif(task == Task.EMBED):
                m.d.sync += self.embed_start.eq(1)
                m.next = "LAST"
            with m.Elif((task == Task.QKV) | (task == Task.PRIOR)):
                m.next = "BEFORE"
            with m.Else():
                m.next = "WAIT"

    def _before(self, m):
        """Broadcast the spikes (for W_T) or the head input (for the head) from memory."""
        with m.State("BEFORE"):
            last = self._word == self._width_last
            m.d.sync += [
                self.op_valid.eq(1),
                self.op.index.eq(self._word),
                self.op.last.eq(last),
                self.op.route.eq(Mux(self.current.task == Task.QKV, Route.SPIKES, Route.REPLAY)),
                self._word.eq(self._word + 1),
            ]
            with m.If(last):
                m.d.sync += self._word.eq(0)
                m.next = "WAIT"

    def _wait(self, m):
        with m.State("WAIT"):
            attention = self._mix
            with m.If(Mux(attention, self.attention_ready, self.op_ready)):
                m.d.comb += [self.attention_consume.eq(attention), self.op_consume.eq(~attention)]
                # The first word goes at once.
                with m.If(attention):
                    m.next = "WEIGHTS"
                    self._weights(m)
                with m.Else():
                    m.next = "DRAIN"
                    self._drain(m)

    def _loops(self, m):
        with m.State("WEIGHTS"):
            self._weights(m)
        with m.State("RECIPROCALS"):  # the first reciprocal must be there when the first numerator is
            with m.If(self._elapsed):
                m.next = "DRAIN"
        with m.State("DRAIN"):
            self._drain(m)
        with m.State("STATISTICS"):
            with m.If(self.statistics_done):
                m.next = "NORMALISE"
                self._normalise(m)
        with m.State("NORMALISE"):
            self._normalise(m)
        with m.State("LAST"):  # EMBED issues no words: its end is the encoder's
            with m.If(Mux(self._embed, self.done, (self._flying == 0) & ~self.op_valid)):
                m.next = "FETCH"
                with m.If(self._chooses):
                    m.d.sync += self.choose.eq(1)
                    m.next = "CHOOSE"
        with m.State("CHOOSE"):
            with m.If(self.chosen):
                m.next = "FETCH"

    def _normalise(self, m):
        last = self._word == self._width_last
        m.d.sync += [
            self.op_valid.eq(1),
            self.op.route.eq(Route.NORMALISE),
            self.op.index.eq(self._word),
            self.op.last.eq(last),
            self.op.parameter.eq(self.current.norm + self._word),
            self._word.eq(self._word + 1),
        ]
        with m.If(last):
            m.next = "LAST"

    def _weights(self, m):
        """A denominator a cycle: each column's word once, then its lanes."""
        shape = self.header.ring_shape
        lane_last = self._offset == self._heads_last
        last = lane_last & (self._column == self._columns_last)
        m.d.sync += [
            self.op_valid.eq(1),
            self.op.route.eq(Route.WEIGHT),
            self.op.index.eq(self._word),
            self.op.sub.eq(self._offset),
            self.op.fresh.eq(self._offset == 0),
            self.op.last.eq(0),
            self.request_valid.eq(self._offset == 0),
            self.request.source.eq(Source.WEIGHT),
            self.request.column.eq(self._column),
            self.request.columns.eq(shape.columns),
            self._word.eq(self._word + 1),
            self._offset.eq(self._offset + 1),
        ]
        with m.If(self._word == 0):
            self._start_timer(m, self._reciprocal_latency)
        with m.If(lane_last):
            m.d.sync += [self._offset.eq(0), self._column.eq(self._column + 1)]
        with m.If(last):
            m.d.sync += [self._word.eq(0), self._column.eq(0)]
            m.next = "RECIPROCALS"

    def _drain(self, m):
        """A word of the result a cycle, column by column."""
        entry, task = self.current, self.current.task
        last = self._word == self._words_last
        m.d.sync += [
            self.op_valid.eq(1),
            self.op.index.eq(self._word),
            self.op.first.eq(self._word == 0),
            self.op.last.eq(last),
            self.op.parameter.eq(entry.parameter + self._word),
            self.op.state.eq(entry.state + self._word),
            self.op.sub.eq(self._sub),
            self.request_valid.eq(1),
            self.request.column.eq(self._column),
            self.request.columns.eq(entry.columns),
            self.request.source.eq(Source.ACC),
            self.request.address.eq(entry.command.acc + self._offset),
            self._word.eq(self._word + 1),
            self._offset.eq(self._offset + 1),
        ]
        with m.Switch(self._part):
            for part, kind in enumerate((BroadcastKind.QUERY, BroadcastKind.KEY, BroadcastKind.VALUE)):
                with m.Case(part):
                    m.d.sync += self.op.kind.eq(kind)
        with m.Switch(task):
            for value, route in (
                (Task.QKV, Route.EVENT),
                (Task.DECAY, Route.DECAY),
                (Task.NORM_U, Route.RESIDUAL),
                (Task.NORM_C, Route.RESIDUAL),
                (Task.STEP, Route.STEP),
                (Task.PRIOR, Route.GELU),
            ):
                with m.Case(value):
                    m.d.sync += self.op.route.eq(route)
            with m.Case(Task.MIX):
                m.d.sync += [
                    self.op.route.eq(Route.MIX),
                    self.request.source.eq(Source.WEIGHTED),
                    self.request.address.eq(self._offset),
                ]
            with m.Case(Task.HEAD):
                m.d.sync += [
                    self.op.route.eq(Route.PROBE),
                    self.request.source.eq(Source.BEST),
                    self.request.column.eq(self._word),
                ]
        self._advance(m)
        with m.If(last):
            m.d.sync += self._word.eq(0)
            with m.If(self._norm):
                m.next = "STATISTICS"
            with m.Elif((task == Task.QKV) | (task == Task.DECAY)):
                # What follows takes its words from the channels too, so it stays behind these, and they need
                # no scalar of the entry.
                m.next = "FETCH"
            with m.Else():
                m.next = "LAST"

    def _advance(self, m):
        """Column and part counters behind a drained word."""
        with m.If(self._offset == self._slice_last):
            m.d.sync += [self._offset.eq(0), self._column.eq(self._column + 1)]
        # Broadcast index within q, k or v; for gate fusion the head, which changes every head_words words.
        with m.If(self._mix):
            with m.If(self._part == self._head_last):
                m.d.sync += [self._part.eq(0), self._sub.eq(self._sub + 1)]
            with m.Else():
                m.d.sync += self._part.eq(self._part + 1)
        with m.Elif(self._sub == self._query_last):
            m.d.sync += [self._sub.eq(0), self._part.eq(self._part + 1)]
        with m.Else():
            m.d.sync += self._sub.eq(self._sub + 1)

    def _close(self, m):
        with m.State("CLOSE"):  # the last task's additions come before the session's
            with m.If(~self._phase_counters.busy):
                m.d.sync += self.finished.eq(1)
                m.next = "IDLE"

    def _count(self, m, *, waiting, closing):
        """Every cycle goes to the account of the running task; nothing has run yet while its entry is END."""
        phase_counters = self._phase_counters
        m.d.comb += [
            phase_counters.running.eq(self.running),
            phase_counters.go.eq(self.go),
            phase_counters.waiting.eq(waiting),
            phase_counters.ending.eq(self._ending & (self.current.task != Task.END)),
            phase_counters.entry.eq(self.current),
            phase_counters.active_valid.eq(self.active_valid),
            phase_counters.active.eq(self.active),
            phase_counters.closing.eq(closing),
            self.pass_cycles.eq(phase_counters.pass_cycles),
            self.add_valid.eq(phase_counters.add_valid),
            self.add_index.eq(phase_counters.add_index),
            self.add_amount.eq(phase_counters.add_amount),
        ]
