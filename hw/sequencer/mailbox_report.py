"""What a run adds to the counters, and its end: read beats by kind, total cycles, mailbox."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..interface import Counter

KINDS = 16  # of traffic that the channels count


class RunReport(wiring.Component):
    """Counts passes while they end; after `start` asks the channels for their read beats, then starts the
    mailbox.

    Parameters
    ----------
    columns : int
        Columns that the channels are cut into for a request of read beats: those of one are summed.

    Members
    -------
    finished, pass_cycles, decoding : In
        End of a pass, its cycles, and whether its input token was generated in this run.
    start : In
        The run is over; held until `done`.
    cycles : In
        Of the run so far.
    done : Out
        The mailbox is in memory.
    traffic_request, traffic_index, traffic_column, traffic_valid, traffic_value : Out, Out, Out, In, In
        Sum over the channels of a column of the read beats of one kind; the value is there for one cycle.
    add_valid, add_index, add_amount : Out
        Additions to the counters; at most two in a row while passes run.
    counters_idle : In
        Every addition so far is in the counters.
    mailbox_start, mailbox_done : Out, In
    """

    def __init__(self, *, columns: int):
        self._columns = columns
        super().__init__(
            {
                "finished": In(1),
                "pass_cycles": In(32),
                "decoding": In(1),
                "start": In(1),
                "cycles": In(48),
                "done": Out(1),
                "traffic_request": Out(1),
                "traffic_index": Out(4),
                "traffic_column": Out(6),
                "traffic_valid": In(1),
                "traffic_value": In(48),
                "add_valid": Out(1),
                "add_index": Out(7),
                "add_amount": Out(48),
                "counters_idle": In(1),
                "mailbox_start": Out(1),
                "mailbox_done": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._passes(m)
        kind, column = Signal(range(KINDS)), Signal(range(self._columns))
        last_column = column == self._columns - 1
        m.d.sync += [self.traffic_request.eq(0), self.mailbox_start.eq(0)]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.next = "TRAFFIC"
            with m.State("TRAFFIC"):
                m.d.sync += [
                    self.traffic_request.eq(1),
                    self.traffic_index.eq(kind),
                    self.traffic_column.eq(column),
                ]
                m.next = "BEATS"
            with m.State("BEATS"):
                with m.If(self.traffic_valid):  # the last addition is long done
                    self._add(m, Counter.READ_BEATS + self.traffic_index, self.traffic_value)
                    m.d.sync += Assert(self.counters_idle, "a count of read beats finds the counters busy")
                    m.d.sync += column.eq(Mux(last_column, 0, column + 1))
                    m.next = "TRAFFIC"
                    with m.If(last_column):
                        m.d.sync += kind.eq(kind + 1)
                        with m.If(kind == KINDS - 1):
                            m.next = "TOTAL"
            with m.State("TOTAL"):
                self._add(m, Counter.TOTAL_CYCLES, self.cycles)
                m.next = "COUNTED"
            with m.State("COUNTED"):
                m.next = "COUNTERS"
            with m.State("COUNTERS"):
                with m.If(self.counters_idle):
                    m.d.sync += self.mailbox_start.eq(1)
                    m.next = "MAILBOX"
            with m.State("MAILBOX"):
                with m.If(self.mailbox_done):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        return m

    def _passes(self, m):
        """Cycles and number of passes, of the prompt or of the decode, one behind the other."""
        step, cycles, decoding = Signal(2), Signal(32), Signal()
        with m.If(self.finished):
            m.d.sync += [step.eq(1), cycles.eq(self.pass_cycles), decoding.eq(self.decoding)]
        with m.Elif(step == 1):
            self._add(m, Counter.PROMPT_CYCLES + decoding, cycles)
            m.d.sync += step.eq(2)
        with m.Elif(step == 2):
            self._add(m, Counter.PROMPT_PASSES + decoding, 1)
            m.d.sync += step.eq(0)

    def _add(self, m, index, amount):
        m.d.comb += [self.add_valid.eq(1), self.add_index.eq(index), self.add_amount.eq(amount)]
