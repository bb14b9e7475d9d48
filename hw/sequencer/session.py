"""The sequencer's top: commands of the host, faults, and a report at the end of every run."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..control import argument_layout
from ..interface import Command, ErrorCode, Flag, Io, Status, StopReason, Traffic
from ..mailbox import mailbox_fields
from ..types import ChannelCommand, Work
from .mailbox_report import RunReport
from .state_transfer import StateAction

# At the end of a run and before a soft reset all channels must be quiet for so long: covers every register on
# the way.
QUIET_CYCLES = 32
RESET_CYCLES = 8


class Session(wiring.Component):
    """Runs one host command at a time and always ends with a mailbox and `done`, whatever happened.

    Members
    -------
    start, args : In
        From the control registers.
    done : Out
        Pulse: the mailbox is in memory.
    running : Out
    dense, full_kv, logits, replace_pending : Out
        Modes of the run.
    load_start, load_done, load_failed / state_start, state_action, state_done / tokens_start, tokens_done,
    tokens_error ... :
        The units that do the work.
    side, beat_valid, beat : Out, In, In
        Session words of RESTORE.
    fault : In
        A channel reports an AXI error; with `fault_write`, `fault_channel`, `fault_address`.
    abort : Out
        Channels stop issuing and discard what arrives.
    channels_quiet : In
        Nothing is outstanding in any channel.
    soft_reset : Out
        Everything but the session's registers starts afresh.
    traffic_request, traffic_index, traffic_valid, traffic_value : Out, Out, In, In
        Sum over the channels of the read beats of one kind.
    finished, pass_cycles, decoding : In
        End of a pass, its cycles, and whether its input token was generated in this run.
    add_valid, add_index, add_amount : Out
        Additions to the counters; at most two in a row while passes run.
    mailbox_start, mailbox_done, fields : Out, In, Out
    position, pending, has_pending, passes, n_tokens : In
        For the mailbox.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "start": In(1),
                "args": In(argument_layout(engine)),
                "done": Out(1),
                "running": Out(1),
                "dense": Out(1),
                "full_kv": Out(1),
                "logits": Out(1),
                "replace_pending": Out(1),
                "load_start": Out(1),
                "load_done": In(1),
                "load_failed": In(1),
                "state_start": Out(1),
                "state_action": Out(StateAction),
                "state_done": In(1),
                "tokens_start": Out(1),
                "tokens_done": In(1),
                "tokens_reason": In(StopReason),
                "tokens_error": In(ErrorCode),
                "tokens_address": In(32),
                "finished": In(1),
                "pass_cycles": In(32),
                "decoding": In(1),
                "forget": Out(1),
                "restore": Out(1),
                "restore_position": Out(21),
                "restore_pending": Out(16),
                "restore_has_pending": Out(1),
                "restoring": In(1),
                "side": Out(stream.Signature(ChannelCommand)),
                "beat_valid": In(1),
                "beat": In(8 * engine.lanes),
                "fault": In(1),
                "fault_write": In(1),
                "fault_channel": In(5),
                "fault_address": In(32),
                "abort": Out(1),
                "channels_quiet": In(1),
                "soft_reset": Out(1),
                "traffic_request": Out(1),
                "traffic_index": Out(4),
                "traffic_valid": In(1),
                "traffic_value": In(48),
                "add_valid": Out(1),
                "add_index": Out(7),
                "add_amount": Out(48),
                "counters_busy": In(1),
                "counters_idle": In(1),
                "counters_clear": Out(1),
                "mailbox_start": Out(1),
                "mailbox_done": In(1),
                "fields": Out(mailbox_fields()),
                "position": In(21),
                "pending": In(16),
                "has_pending": In(1),
                "passes": In(32),
                "n_tokens": In(17),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._loaded, self._clean = Signal(), Signal()
        self._reason, self._error = Signal(StopReason), Signal(ErrorCode)
        self._error_channel, self._error_address = Signal(5), Signal(32)
        self._cycles, self._timer = Signal(48), Signal(6)
        self._watchdog = Signal(48)
        pulses = (
            self.load_start,
            self.state_start,
            self.tokens_start,
            self.forget,
            self.restore,
            self.done,
            self.counters_clear,
        )
        m.d.sync += [pulse.eq(0) for pulse in pulses]
        self._stopping = Signal()
        m.submodules.report = self._report_unit = RunReport()
        with m.FSM() as fsm:
            self._idle(m)
            self._work(m)
            self._fault(m)
            self._report(m)
        states = ("LOAD", "STATE", "TOKENS", "WORDS_REQUEST", "WORDS", "QUIET")
        working = Cat(fsm.ongoing(state) for state in states).any()
        with m.If(~fsm.ongoing("IDLE")):
            m.d.sync += self._cycles.eq(self._cycles + 1)
        # The reset reaches the channels a cycle later than ABORT ends: not one burst may start in between.
        aborting = fsm.ongoing("ABORT") | fsm.ongoing("RESET")
        m.d.comb += [self.running.eq(~fsm.ongoing("IDLE")), self.abort.eq(aborting)]
        self._watch(m, working)
        self._fields(m)
        return m

    def _idle(self, m):
        args = self.args
        with m.State("IDLE"):
            with m.If(self.start):
                gather, kv = self._engine.fixed_gather, self._engine.fixed_kv
                dense = (args.flags & Flag.DENSE).any() if gather == "runtime" else int(gather == "dense")
                full = (args.flags & Flag.FULL_KV).any() if kv == "runtime" else int(kv == "full")
                m.d.sync += [
                    self.dense.eq(dense),
                    self.full_kv.eq(full),
                    self.logits.eq((args.flags & Flag.LOGITS).any()),
                    self.replace_pending.eq((args.flags & Flag.REPLACE_PENDING).any()),
                    self.counters_clear.eq(1),
                    self._cycles.eq(0),
                    self._reason.eq(StopReason.NONE),
                    self._error.eq(ErrorCode.NONE),
                    self._error_channel.eq(0),
                    self._error_address.eq(0),
                    self._watchdog.eq(args.watchdog),
                    self._timer.eq(2),
                ]
                m.next = "CLEAR"
        with m.State("CLEAR"):
            m.d.sync += self._timer.eq(Mux(self._timer == 0, 0, self._timer - 1))
            with m.If((self._timer == 0) & ~self.counters_busy):
                m.next = "DECODE"

    def _refuse(self, m, error):
        m.d.sync += [self._reason.eq(StopReason.FAULT), self._error.eq(error)]
        m.next = "REPORT"

    def _work(self, m):
        with m.State("DECODE"):
            with m.Switch(self.args.command):
                with m.Case(Command.LOAD):
                    m.d.sync += [self.load_start.eq(1), self._loaded.eq(0)]
                    m.next = "LOAD"
                with m.Case(Command.RESET, Command.DUMP, Command.RESTORE):
                    action = Mux(
                        self.args.command == Command.RESET,
                        StateAction.SWEEP,
                        Mux(self.args.command == Command.DUMP, StateAction.DUMP, StateAction.RESTORE),
                    )
                    with m.If(self._loaded):
                        m.d.sync += [self.state_start.eq(1), self.state_action.eq(action)]
                        m.next = "STATE"
                    with m.Else():
                        self._refuse(m, ErrorCode.NOT_LOADED)
                with m.Case(Command.GENERATE):
                    with m.If(~self._loaded):
                        self._refuse(m, ErrorCode.NOT_LOADED)
                    with m.Elif(~self._clean):
                        self._refuse(m, ErrorCode.NEEDS_RESET)
                    with m.Else():
                        m.d.sync += self.tokens_start.eq(1)
                        m.next = "TOKENS"
                with m.Default():
                    self._refuse(m, ErrorCode.BAD_COMMAND)
        with m.State("LOAD"):
            with m.If(self.load_done):
                with m.If(self.load_failed):
                    self._refuse(m, ErrorCode.NOT_LOADED)
                with m.Else():
                    m.d.sync += [
                        self._loaded.eq(1),
                        self.state_start.eq(1),
                        self.state_action.eq(StateAction.SWEEP),
                    ]
                    m.next = "STATE"
            self._guard(m)
        with m.State("STATE"):
            with m.If(self.state_done):
                with m.Switch(self.state_action):
                    with m.Case(StateAction.SWEEP):
                        m.d.sync += [self.forget.eq(1), self._clean.eq(1)]
                        self._settle(m)
                    with m.Case(StateAction.RESTORE):
                        m.next = "WORDS_REQUEST"
                    with m.Default():
                        self._settle(m)
            self._guard(m)
        with m.State("TOKENS"):
            with m.If(self.tokens_done):
                m.d.sync += [
                    self._reason.eq(self.tokens_reason),
                    self._error.eq(self.tokens_error),
                    self._error_address.eq(self.tokens_address),
                ]
                # A bad id in the middle of a prompt leaves a half ingested turn.
                with m.If(self.tokens_error == ErrorCode.BAD_TOKEN):
                    m.d.sync += self._clean.eq(0)
                self._settle(m)
            self._guard(m)
        with m.State("QUIET"):
            m.d.sync += self._timer.eq(Mux(self.channels_quiet, self._timer - 1, QUIET_CYCLES))
            with m.If(self.channels_quiet & (self._timer == 0)):
                m.next = "REPORT"
            self._guard(m)
        self._restore(m)

    def _settle(self, m):
        """Before a run counts as done, the memory must have answered its last writes: one of them may be a
        fault."""
        m.d.sync += self._timer.eq(QUIET_CYCLES)
        m.next = "QUIET"

    def _guard(self, m):
        """At the end of a working state: a fault overrides what the state decided."""
        with m.If(self._stopping):
            m.next = "ABORT"

    def _restore(self, m):
        """Position and pending token of a restored session: three words at Io.PROMPT."""
        m.d.comb += [
            self.side.p.work.eq(Work.DIRECT_READ),
            self.side.p.io.eq(1),
            self.side.p.count.eq(1),
            self.side.p.base.eq(Io.PROMPT // self._engine.beat_bytes),
            self.side.p.traffic.eq(Traffic.IO),
        ]
        with m.State("WORDS_REQUEST"):
            m.d.comb += self.side.valid.eq(1)
            with m.If(self.side.ready):
                m.next = "WORDS"
            self._guard(m)
        with m.State("WORDS"):
            with m.If(self.beat_valid):
                m.d.sync += [
                    self.restore.eq(1),
                    self.restore_position.eq(self.beat[:21]),
                    self.restore_pending.eq(self.beat[32:48]),
                    self.restore_has_pending.eq(self.beat[64]),
                    self._clean.eq(1),
                    self._timer.eq(2),
                ]
                m.next = "SETTLE"
            self._guard(m)
        with m.State("SETTLE"):  # the ring slot follows the position step by step
            m.d.sync += self._timer.eq(Mux(self._timer == 0, 0, self._timer - 1))
            with m.If((self._timer == 0) & ~self.restoring):
                self._settle(m)

    def _watch(self, m, working):
        """Faults of the bus and the watchdog take any work to ABORT."""
        late = Signal()
        m.d.sync += late.eq((self._watchdog != 0) & (self._cycles >= self._watchdog))
        m.d.comb += self._stopping.eq(working & (self.fault | late))
        with m.If(self._stopping):
            m.d.sync += [self._reason.eq(StopReason.FAULT), self._clean.eq(0), self._timer.eq(QUIET_CYCLES)]
            with m.If(self.fault):
                m.d.sync += [
                    self._error.eq(Mux(self.fault_write, ErrorCode.WRITE_RESPONSE, ErrorCode.READ_RESPONSE)),
                    self._error_channel.eq(self.fault_channel),
                    self._error_address.eq(self.fault_address),
                ]
            with m.Else():
                m.d.sync += self._error.eq(ErrorCode.WATCHDOG)

    def _fault(self, m):
        """Nothing may be outstanding when the reset falls: the memory would answer to nobody."""
        with m.State("ABORT"):
            with m.If(~self.channels_quiet):
                m.d.sync += self._timer.eq(QUIET_CYCLES)
            with m.Else():
                m.d.sync += self._timer.eq(self._timer - 1)
                with m.If(self._timer == 0):
                    m.d.sync += self._timer.eq(RESET_CYCLES)
                    m.next = "RESET"
        with m.State("RESET"):
            m.d.comb += self.soft_reset.eq(1)
            m.d.sync += self._timer.eq(self._timer - 1)
            with m.If(self._timer == 0):
                m.d.sync += self._timer.eq(QUIET_CYCLES)
                m.next = "RECOVER"
        with m.State("RECOVER"):  # the reset reaches the channels over registers
            m.d.sync += self._timer.eq(self._timer - 1)
            with m.If(self._timer == 0):
                m.next = "REPORT"

    def _report(self, m):
        """Additions to the counters and the mailbox are the report's."""
        report = self._report_unit
        with m.State("REPORT"):
            m.d.comb += report.start.eq(1)
            with m.If(report.done):
                m.d.sync += self.done.eq(1)
                m.next = "IDLE"
        m.d.comb += report.cycles.eq(self._cycles)
        for name, member in report.signature.members.items():
            if name in self.signature.members and name not in ("start", "done"):
                ours, theirs = getattr(self, name), getattr(report, name)
                m.d.comb += ours.eq(theirs) if member.flow is Out else theirs.eq(ours)

    def _fields(self, m):
        """What the mailbox says."""
        m.d.comb += [
            self.fields.run_id.eq(self.args.run_id),
            self.fields.status.eq(Mux(self._error == ErrorCode.NONE, Status.OK, Status.ERROR)),
            self.fields.stop_reason.eq(self._reason),
            self.fields.n_tokens.eq(self.n_tokens),
            self.fields.error.eq(self._error),
            self.fields.error_channel.eq(self._error_channel),
            self.fields.error_address.eq(self._error_address),
            self.fields.position.eq(self.position),
            self.fields.pending.eq(self.pending),
            self.fields.has_pending.eq(self.has_pending),
            self.fields.passes.eq(self.passes),
        ]
