"""The sequencer's top: commands of the host, faults, and a report at the end of every run."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..config import Engine
from ..interface import (
    CHANNEL_BITS,
    LONG_WATCHDOG_SHIFT,
    Command,
    ErrorCode,
    Flag,
    Io,
    Status,
    StopReason,
    Traffic,
)
from ..types import Work
from .mailbox_report import RunReport
from .session_ports import session_signature
from .state_transfer import StateAction

# At the end of a run and before a soft reset all channels must be quiet for so long: covers every register on
# the way.
QUIET_CYCLES = 32
WORD_BYTES = 4  # of the io buffer's words
RESET_CYCLES = 8


class Session(wiring.Component):
    """Runs one host command at a time and always ends with a mailbox and `done`, whatever happened.

    Members: `session_signature`.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(session_signature(engine))

    def elaborate(self, platform):
        m = Module()
        self._loaded, self._clean = Signal(), Signal()
        self._reason, self._error = Signal(StopReason), Signal(ErrorCode)
        self._error_channel, self._error_address = Signal(CHANNEL_BITS), Signal(32)
        self._cycles, self._timer = Signal(48), Signal(range(QUIET_CYCLES + 1))
        self._watchdog = Signal(48)
        self._lost = Signal()  # an answer is: a late one would be taken for another's
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
        m.submodules.report = self._report_unit = RunReport(columns=self._engine.joined)
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
        m.d.comb += [
            self.running.eq(~fsm.ongoing("IDLE")),
            self.abort.eq(aborting),
            self.waiting.eq(fsm.ongoing("ABORT")),
        ]
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
                    self.sampling.eq((args.flags & Flag.SAMPLE).any()),
                    self.every_head.eq((args.flags & Flag.EVERY_HEAD).any()),
                    self.listing.eq((args.flags & Flag.CANDIDATES).any()),
                    self.replace_pending.eq((args.flags & Flag.REPLACE_PENDING).any()),
                    self.counters_clear.eq(1),
                    self._cycles.eq(0),
                    self._reason.eq(StopReason.NONE),
                    self._error.eq(ErrorCode.NONE),
                    self._error_channel.eq(Mux(self._lost, self._error_channel, 0)),
                    self._error_address.eq(0),
                    self._watchdog.eq(
                        args.watchdog << Mux((args.flags & Flag.LONG_WATCHDOG).any(), LONG_WATCHDOG_SHIFT, 0)
                    ),
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
            with m.If(self._lost):
                m.d.sync += [self.load_start.eq(0), self.state_start.eq(0), self.tokens_start.eq(0)]
                self._refuse(m, ErrorCode.STUCK_PORT)
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
        beats = -(-3 * WORD_BYTES // self._engine.beat_bytes)
        m.d.comb += [
            self.side.p.work.eq(Work.DIRECT_READ),
            self.side.p.io.eq(1),
            self.side.p.count.eq(beats),
            self.side.p.base.eq(Io.PROMPT // self._engine.beat_bytes),
            self.side.p.traffic.eq(Traffic.IO),
        ]
        # A beat may hold two words only: then the first of two is kept.
        first, missing = Signal.like(self.beat), Signal()
        words = Cat(first, self.beat) if beats == 2 else self.beat
        with m.State("WORDS_REQUEST"):
            m.d.comb += self.side.valid.eq(1)
            m.d.sync += missing.eq(beats == 2)
            with m.If(self.side.ready):
                m.next = "WORDS"
            self._guard(m)
        with m.State("WORDS"):
            with m.If(self.beat_valid):
                m.d.sync += [first.eq(self.beat), missing.eq(0)]
            with m.If(self.beat_valid & ~missing):
                m.d.sync += [
                    self.restore.eq(1),
                    self.restore_position.eq(words[:21]),
                    self.restore_pending.eq(words[32:48]),
                    self.restore_has_pending.eq(words[64]),
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
            with m.If(self.stuck):
                m.d.sync += [
                    self._lost.eq(1),
                    self._error.eq(ErrorCode.STUCK_PORT),
                    self._error_channel.eq(self.stuck_channel),
                    self._timer.eq(RESET_CYCLES),
                ]
                m.next = "RESET"
            with m.Elif(~self.channels_quiet):
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
