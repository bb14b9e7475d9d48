"""The autonomous token loop: which token enters which pass, and when a run stops (arithmetic, section 7)."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from symlight.model.config import MAX_POSITION

from ..channel.logits import LOGIT_HEADS
from ..config import Engine
from ..interface import ErrorCode, Io, StopReason, Traffic
from ..types import BEAT_ADDRESS, ChannelCommand, Header, Work
from .dispatch import PassInfo


class TokenLoop(wiring.Component):
    """Position, ring slot, pending token, and the loop over prompt and generated tokens.

    Members
    -------
    header : In
    n_prompt, n_new, eos : In
        Arguments of the run; stable while it runs.
    start, replace_pending : In
        Pulse: GENERATE; with it, whether the pending token is forgotten.
    done : Out
        Pulse, with `stop_reason`, `error`, `error_address`.
    forget : In
        Pulse: a new session (position 0, nothing pending).
    restore, restore_position, restore_pending, restore_has_pending : In
        Pulse and values of a restored session.
    side : Out, stream of ChannelCommand
    beat_valid, beat : In
        Prompt beats.
    go, info, head_pass : Out
        Starts a pass.
    decoding : Out
        The pass's input token was generated in this run.
    every_head : In
        The head is evaluated in every pass; without, in those that yield a token.
    logit_base : Out
        Where the channels write the logits of the pass's head: one head's behind another's, and from the
        beginning again after `LOGIT_HEADS`.
    finished, best : In
        Pulse at the end of a pass; its argmax.
    token : Out, stream
        Each generated token.
    position, pending, has_pending, passes : Out
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "header": In(Header),
                "n_prompt": In(32),
                "n_new": In(32),
                "eos": In(32),
                "start": In(1),
                "replace_pending": In(1),
                "done": Out(1),
                "stop_reason": Out(StopReason),
                "error": Out(ErrorCode),
                "error_address": Out(32),
                "forget": In(1),
                "restore": In(1),
                "restore_position": In(21),
                "restore_pending": In(16),
                "restore_has_pending": In(1),
                "restoring": Out(1),
                "side": Out(stream.Signature(ChannelCommand)),
                "beat_valid": In(1),
                "beat": In(8 * engine.lanes),
                "go": Out(1),
                "info": Out(PassInfo),
                "head_pass": Out(1),
                "decoding": Out(1),
                "every_head": In(1),
                "logit_base": Out(BEAT_ADDRESS),
                "finished": In(1),
                "best": In(16),
                "token": Out(stream.Signature(16)),
                "position": Out(21),
                "pending": Out(16),
                "has_pending": Out(1),
                "passes": Out(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._next = Signal(32)  # prompt tokens taken so far
        self._made = Signal(32)  # tokens generated so far
        self._token = Signal(32)  # input of the next pass
        self._slot, self._populated = Signal(9), Signal(10)
        self._restored = Signal()  # no pass since the session was restored
        self._last = Signal()  # the input token is the last of prompt and pending
        per_beat = self._engine.lanes // 4
        self._window = [Signal(32, name=f"prompt{i}") for i in range(per_beat)]
        self._part = Signal(range(per_beat))
        # The arguments have been stable for some cycles when a run starts.
        self._no_prompt, self._no_new = Signal(), Signal()
        self._prompt_last, self._new_last = Signal(32), Signal(32)
        m.d.sync += [
            self.done.eq(0),
            self.go.eq(0),
            self._no_prompt.eq(self.n_prompt == 0),
            self._prompt_last.eq(self.n_prompt - 1),
            self._no_new.eq(self.n_new == 0),
            self._new_last.eq(self.n_new - 1),
        ]
        m.d.comb += [
            self.side.p.work.eq(Work.DIRECT_READ),
            self.side.p.io.eq(1),
            self.side.p.count.eq(1),
            self.side.p.base.eq(Io.PROMPT // self._engine.beat_bytes + (self._next // per_beat)[:16]),
            self.side.p.traffic.eq(Traffic.IO),
            self.info.token.eq(self._token[:16]),
            self.info.head.eq(self.head_pass),
            self.info.position.eq(self.position),
            self.info.slot.eq(self._slot),
            self.info.populated.eq(self._populated),
            self.info.restored.eq(self._restored),
            self.token.p.eq(self.best),
        ]
        with m.FSM():
            self._begin(m)
            self._prompt(m)
            self._passes(m)
        self._session(m)
        self._logits(m)
        return m

    def _stop(self, m, reason, error=ErrorCode.NONE, address=0):
        m.d.sync += [
            self.done.eq(1),
            self.stop_reason.eq(reason),
            self.error.eq(error),
            self.error_address.eq(address),
        ]
        m.next = "IDLE"

    def _begin(self, m):
        total = Signal(33)  # tokens in and out; the last one is not ingested
        too_long = Signal()
        with m.State("IDLE"):
            with m.If(self.start):
                m.d.sync += [
                    self._next.eq(0),
                    self._made.eq(0),
                    self.passes.eq(0),
                    self.decoding.eq(0),
                    total.eq(self.n_prompt + self.n_new + (self.has_pending & ~self.replace_pending)),
                    self.has_pending.eq(self.has_pending & ~self.replace_pending),
                ]
                m.next = "ADD"
        with m.State("ADD"):
            m.d.sync += too_long.eq(total > MAX_POSITION + 1 - self.position)
            m.next = "CHECK"
        with m.State("CHECK"):
            with m.If(self._no_prompt & ~self.has_pending):
                self._stop(m, StopReason.FAULT, ErrorCode.EMPTY_INPUT)
            with m.Elif(too_long):
                self._stop(m, StopReason.FAULT, ErrorCode.SESSION_FULL, self.position)
            with m.Elif(self.has_pending):
                m.d.sync += [self._token.eq(self.pending), self._last.eq(self._no_prompt)]
                m.next = "INPUT"
            with m.Else():
                m.next = "PROMPT"

    def _prompt(self, m):
        """The next prompt id: a beat is read when its first id is due."""
        per_beat = self._engine.lanes // 4
        with m.State("PROMPT"):
            m.d.sync += self._part.eq(self._next % per_beat)
            with m.If(self._next % per_beat == 0):
                m.d.comb += self.side.valid.eq(1)
                with m.If(self.side.ready):
                    m.next = "ARRIVE"
            with m.Else():
                m.next = "TAKE"
        with m.State("ARRIVE"):
            with m.If(self.beat_valid):
                m.d.sync += [word.eq(self.beat[32 * i : 32 * i + 32]) for i, word in enumerate(self._window)]
                m.next = "TAKE"
        with m.State("TAKE"):
            m.d.sync += [
                self._token.eq(Array(self._window)[self._part]),
                self._next.eq(self._next + 1),
                self._last.eq(self._next == self._prompt_last),
            ]
            m.next = "INPUT"

    def _passes(self, m):
        with m.State("INPUT"):
            with m.If(self._token >= self.header.vocab):
                self._stop(m, StopReason.FAULT, ErrorCode.BAD_TOKEN, self._token)
            with m.Elif(self._last & self._no_new):
                m.d.sync += [self.pending.eq(self._token), self.has_pending.eq(1)]
                self._stop(m, StopReason.NONE)
            with m.Else():
                m.d.sync += [
                    self.head_pass.eq(self._last | self.every_head),
                    self.has_pending.eq(0),
                    self.go.eq(1),
                ]
                m.next = "PASS"
        with m.State("PASS"):
            with m.If(self.finished):
                m.d.sync += self.passes.eq(self.passes + 1)
                with m.If(self._last):
                    m.next = "EMIT"
                with m.Else():
                    m.next = "PROMPT"
        with m.State("EMIT"):
            m.d.comb += self.token.valid.eq(1)
            with m.If(self.token.ready):
                m.d.sync += [
                    self._token.eq(self.best),
                    self.pending.eq(self.best),
                    self.has_pending.eq(1),
                    self._made.eq(self._made + 1),
                    self.decoding.eq(1),
                ]
                with m.If(self.best == self.eos):
                    self._stop(m, StopReason.EOS)
                with m.Elif(self._made == self._new_last):
                    self._stop(m, StopReason.LENGTH)
                with m.Else():
                    m.next = "INPUT"

    def _session(self, m):
        """Position and ring slot move with every pass (model.config.ModelShape.slot, populated)."""
        ring = self.header.ring_shape
        slots = self.header.slots
        with m.If(self.restore):
            m.d.sync += self._restored.eq(1)
        with m.Elif(self.finished | self.forget):
            m.d.sync += self._restored.eq(0)
        with m.If(self.finished):
            m.d.sync += [
                self.position.eq(self.position + 1),
                self._slot.eq(Mux(self._slot == slots - 1, ring.anchors, self._slot + 1)),
                self._populated.eq(Mux(self._populated == slots, slots, self._populated + 1)),
            ]
        with m.If(self.forget):
            m.d.sync += [self.position.eq(0), self._slot.eq(0), self._populated.eq(0), self.has_pending.eq(0)]
        # A restored position finds its slot by steps, as many as the session has positions beyond the
        # anchors' turn.
        left = Signal(21)
        with m.If(self.restore):
            m.d.sync += [
                self.position.eq(self.restore_position),
                left.eq(self.restore_position),
                self._slot.eq(0),
                self._populated.eq(0),
                self.pending.eq(self.restore_pending),
                self.has_pending.eq(self.restore_has_pending),
            ]
        with m.Elif(left != 0):
            m.d.sync += [
                left.eq(left - 1),
                self._slot.eq(Mux(self._slot == slots - 1, ring.anchors, self._slot + 1)),
                self._populated.eq(Mux(self._populated == slots, slots, self._populated + 1)),
            ]
        m.d.comb += self.restoring.eq(left != 0)

    def _logits(self, m):
        """The place of the next head's logits."""
        heads = Signal(exact_log2(LOGIT_HEADS))  # evaluated heads of the run
        with m.If(self.start):
            m.d.sync += [self.logit_base.eq(self.header.logit_base), heads.eq(0)]
        with m.Elif(self.finished & self.head_pass):
            m.d.sync += [self.logit_base.eq(self.logit_base + self.header.logit_beats), heads.eq(heads + 1)]
            with m.If(heads.all()):
                m.d.sync += self.logit_base.eq(self.header.logit_base)
