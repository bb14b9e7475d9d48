"""Where the cycles of a pass go: an account a task, added to the counters beside the next task."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..interface import Counter, Phase
from ..types import OpEntry

# cycles after the end of a task until the nonzero elements of its last broadcast word are counted
SETTLE = 2
ACCOUNT_CYCLES = SETTLE + 3  # a task's additions to the counters; no other task begins meanwhile


class PhaseCounters(wiring.Component):
    """Counts every cycle of a pass once, as stream or as hand-over of the running task, and its nonzero
    elements.

    The additions follow beside the next task, whose first broadcast word comes later than they are made.

    Members
    -------
    running, go : In
        A pass runs; pulse of its first cycle.
    waiting : In
        The vector unit waits for the channels: a stream cycle, else a hand-over cycle.
    ending, entry : In
        The running task ends, and its entry of the operation table.
    active_valid, active : In
        Nonzero elements of a broadcast word.
    closing : In
        The pass ends: what has been counted since the last task belongs to none.
    busy : Out
        Additions of the task that has ended are still to be made.
    add_valid, add_index, add_amount : Out
        Additions to the counters; at most three in a row, then many cycles none.
    pass_cycles : Out
        Of the running pass.
    """

    def __init__(self, engine: Engine):
        super().__init__(
            {
                "running": In(1),
                "go": In(1),
                "waiting": In(1),
                "ending": In(1),
                "entry": In(OpEntry),
                "active_valid": In(1),
                "active": In(range(engine.lanes + 1)),
                "closing": In(1),
                "busy": Out(1),
                "add_valid": Out(1),
                "add_index": Out(7),
                "add_amount": Out(32),
                "pass_cycles": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        stream, handover, elements = Signal(32), Signal(32), Signal(32)  # of the running task
        step = Signal(ACCOUNT_CYCLES)  # one bit, which moves down: bit k - 1 is k cycles before the end
        m.d.comb += self.busy.eq(step.any())
        with m.If(self.running):
            m.d.sync += [
                stream.eq(Mux(self.ending, 0, stream) + self.waiting),
                handover.eq(Mux(self.ending, 0, handover) + (self.waiting == 0)),
                self.pass_cycles.eq(Mux(self.go, 1, self.pass_cycles + 1)),
            ]
        with m.If(self.closing):
            m.d.sync += [stream.eq(0), handover.eq(0)]
        with m.If(step[0]):
            m.d.sync += elements.eq(Mux(self.active_valid, self.active, 0))
        with m.Elif(self.active_valid):
            m.d.sync += elements.eq(elements + self.active)
        self._additions(m, step, stream, handover, elements)
        self._rest(m, stream, handover)
        return m

    def _additions(self, m, step, stream, handover, elements):
        """The three sums of the task that has ended."""
        ended = {"stream": Signal(32, name="ended_stream"), "handover": Signal(32, name="ended_handover")}
        phase, statistic, counted = Signal(4), Signal(8), Signal()
        with m.If(self.ending):
            m.d.sync += [
                ended["stream"].eq(stream),
                ended["handover"].eq(handover),
                phase.eq(self.entry.phase),
                statistic.eq(self.entry.statistic),
                counted.eq(self.entry.counted),
                step.eq(1 << ACCOUNT_CYCLES - 1),
            ]
        with m.Else():
            m.d.sync += step.eq(step >> 1)
        additions = {
            3: (phase << 1, ended["stream"], 1),
            2: (phase << 1 | 1, ended["handover"], 1),
            1: (Counter.ACTIVE + statistic, elements, counted),
        }
        for number, (index, amount, valid) in additions.items():
            with m.If(step[number - 1]):
                m.d.comb += [self.add_valid.eq(valid), self.add_index.eq(index), self.add_amount.eq(amount)]

    def _rest(self, m, stream, handover):
        """The account of the pass's end waits until that of the last task has been added, and the session its
        pass."""
        late, rest = Signal(range(SETTLE + 6)), Signal(32)
        with m.If(self.closing):
            m.d.sync += [late.eq(SETTLE + 5), rest.eq(stream + handover + 1)]
        with m.Elif(late != 0):
            m.d.sync += late.eq(late - 1)
        with m.If(late == 1):
            m.d.comb += [
                self.add_valid.eq(1),
                self.add_index.eq(2 * Phase.CONTROL + 1),
                self.add_amount.eq(rest),
            ]
