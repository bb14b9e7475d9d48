"""The whole kernel: control registers, sequencer, vector unit, and a channel for every HBM pseudo-channel."""

from amaranth.hdl import Assert, Cat, Instance, Module, Mux, ResetInserter, ResetSignal, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from symlight.model.sampling import CANDIDATES

from .axi import AxiMaster
from .channel.channel import Channel
from .channel.channel_ports import channel_signature
from .config import Engine
from .control import AxiLite, Control
from .counters import ADD, Counters
from .lib.instance import ModuleInstance
from .mailbox import Mailbox, TokenWriter
from .sequencer.argmax import Argmax
from .sequencer.dispatch import Dispatcher
from .sequencer.load import LoadUnit
from .sequencer.merge import CandidateMerge
from .sequencer.port_watch import PortWatch
from .sequencer.sampler import Sampler, Settings
from .sequencer.sampler_arguments import unpack_settings
from .sequencer.session import Session
from .sequencer.state_transfer import StateUnit
from .sequencer.store import Barrier, OperationTable
from .sequencer.tasks import TaskRunner
from .sequencer.tokens import TokenLoop
from .types import BroadcastKind, DrainRequest, Source, broadcast_layout
from .vector.reduce import DrainReduce
from .vector.unit import VectorUnit
from .vector.words import Route, WordOp

CHANNEL_MODULE = "symlight_channel"
IDENTITY_MODULE = "symlight_identity"
# What a channel says beside its drain; of an address the low half.
_STATUS = data.StructLayout(
    {
        "command_room": 1,
        "kv_room": 1,
        "quiet": 1,
        "write_quiet": 1,
        "write_room": 1,
        "fault": 1,
        "fault_write": 1,
        "fault_address": 32,
    }
)
# Of registers that carry a reset over the card: neither merged with equal ones nor made a shift register.
OWN_REGISTER = {"keep": "true", "shreg_extract": "no"}
BUS_REGISTERS = 1  # registers between the sequencer and the channels' inputs


class Kernel(wiring.Component):
    """The accelerator behind its bus ports.

    Parameters
    ----------
    engine : Engine
    build_id : int or None
        128 bits, written into every mailbox; None takes them from module `IDENTITY_MODULE`.
    inline_channels : bool
        Elaborate the channels in place (for one-module simulation) instead of instantiating `CHANNEL_MODULE`.

    Members
    -------
    control : In(AxiLite)
    hbm : array of Out(AxiMaster)
    interrupt : Out
    """

    def __init__(self, engine: Engine, *, build_id: int | None = None, inline_channels: bool = False):
        self._engine, self._build_id, self._inline = engine, build_id, inline_channels
        super().__init__(
            {
                "control": In(AxiLite()),
                "interrupt": Out(1),
                "hbm": Out(AxiMaster(engine.beat_bytes)).array(engine.channels),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        self._control(m, engine)
        soft = self._session.soft_reset
        reset = ResetInserter(soft)
        self._reduce = DrainReduce(engine.channels, engine.lanes)
        drain_latency = BUS_REGISTERS + Channel.DRAIN_LATENCY + self._reduce.LATENCY
        self._vector = VectorUnit(engine, drain_latency=drain_latency)
        self._runner = TaskRunner(engine, reciprocal_latency=self._vector.RECIPROCAL_LATENCY)
        self._dispatch, self._load, self._state = Dispatcher(engine), LoadUnit(engine), StateUnit(engine)
        self._tokens, self._table, self._argmax = TokenLoop(engine), OperationTable(engine), Argmax(engine)
        self._merge, self._sampler = CandidateMerge(engine), Sampler(candidates=CANDIDATES)
        self._ops, self._attentions = Barrier(engine.channels), Barrier(engine.channels)
        parts = (
            "reduce",
            "vector",
            "runner",
            "dispatch",
            "load",
            "state",
            "tokens",
            "argmax",
            "merge",
            "sampler",
            "ops",
            "attentions",
        )
        for name in parts:
            m.submodules[name] = reset(getattr(self, f"_{name}"))
        m.submodules.table = self._table
        self._sequencing(m)
        self._sessions(m)
        self._vectors(m)
        self._writes(m)
        self._channels(m, soft)
        return m

    def _control(self, m, engine):
        """Control registers, session, counters, mailbox: what survives a fault."""
        m.submodules.control = self._registers = control = Control(engine=engine)
        m.submodules.session = self._session = session = Session(engine)
        m.submodules.counters = self._counters = counters = Counters()
        identity = Signal(128)
        if self._build_id is None:
            m.submodules.identity = Instance(IDENTITY_MODULE, o_build_id=identity)
        else:
            m.d.comb += identity.eq(self._build_id)
        m.submodules.mailbox = self._mailbox = mailbox = Mailbox(engine=engine, build_id=identity)
        m.submodules.token_writer = self._token_writer = TokenWriter(engine=engine)
        connect(m, flipped(self.control), control.bus)
        m.d.comb += [
            self.interrupt.eq(control.interrupt),
            session.start.eq(control.start),
            session.args.eq(control.args),
            control.done.eq(session.done),
            counters.clear.eq(session.counters_clear),
            session.counters_busy.eq(counters.busy),
            session.counters_idle.eq(counters.idle),
            mailbox.start.eq(session.mailbox_start),
            session.mailbox_done.eq(mailbox.done),
            mailbox.fields.eq(session.fields),
            counters.index.eq(mailbox.index),
            mailbox.value.eq(counters.value),
            self._token_writer.clear.eq(session.counters_clear),
            session.n_tokens.eq(self._token_writer.count),
        ]

    def _sequencing(self, m):
        """Table, dispatcher, runner and token loop."""
        table, dispatch, runner, tokens = self._table, self._dispatch, self._runner, self._tokens
        load, session = self._load, self._session
        m.d.comb += [
            table.write_valid.eq(load.table_valid),
            table.write_index.eq(load.table_index),
            table.write_entry.eq(load.table_entry),
            table.index_a.eq(dispatch.index),
            dispatch.entry.eq(table.entry_a),
            table.index_b.eq(runner.index),
            runner.entry.eq(table.entry_b),
            dispatch.header.eq(load.header),
            dispatch.dense.eq(session.dense),
            dispatch.full_kv.eq(session.full_kv),
            dispatch.logits.eq(session.logits),
            dispatch.sampling.eq(session.sampling),
            dispatch.go.eq(tokens.go),
            dispatch.info.eq(tokens.info),
            runner.header.eq(load.header),
            runner.head_pass.eq(tokens.head_pass),
            runner.go.eq(tokens.go),
            runner.op_ready.eq(self._ops.ready),
            runner.attention_ready.eq(self._attentions.ready),
            self._ops.consume.eq(runner.op_consume),
            self._attentions.consume.eq(runner.attention_consume),
            tokens.header.eq(load.header),
            tokens.finished.eq(runner.finished),
            tokens.best.eq(Mux(session.sampling, self._sampler.token, self._argmax.best)),
        ]
        add_valid, add = Signal(), Signal(ADD)
        m.d.sync += [
            add_valid.eq(runner.add_valid | session.add_valid),
            add.index.eq(Mux(session.add_valid, session.add_index, runner.add_index)),
            add.amount.eq(Mux(session.add_valid, session.add_amount, runner.add_amount)),
        ]
        m.d.comb += [self._counters.add.valid.eq(add_valid), self._counters.add.p.eq(add)]
        # Neither waits: they take turns by construction, and the queue in front of the counters takes their
        # bursts.
        m.d.sync += Assert(
            ~(runner.add_valid & session.add_valid), "session and runner add in the same cycle"
        )
        with m.If(self._counters.add.valid):
            m.d.sync += Assert(self._counters.add.ready, "an addition to a counter is lost")

    def _sessions(self, m):
        """Session to the units that do its commands; all their DIRECT_READ commands and beats."""
        session, load, state, tokens = self._session, self._load, self._state, self._tokens
        args = self._registers.args
        m.d.comb += [
            load.start.eq(session.load_start),
            session.load_done.eq(load.done),
            session.load_failed.eq(load.failed),
            load.gelu_busy.eq(self._vector.gelu_busy),
            state.header.eq(load.header),
            state.start.eq(session.state_start),
            state.action.eq(session.state_action),
            session.state_done.eq(state.done),
            tokens.n_prompt.eq(args.n_prompt),
            tokens.n_new.eq(args.n_new),
            tokens.eos.eq(args.eos),
            tokens.start.eq(session.tokens_start),
            tokens.replace_pending.eq(session.replace_pending),
            session.tokens_done.eq(tokens.done),
            session.tokens_reason.eq(tokens.stop_reason),
            session.tokens_error.eq(tokens.error),
            session.tokens_address.eq(tokens.error_address),
            tokens.forget.eq(session.forget),
            tokens.restore.eq(session.restore),
            tokens.restore_position.eq(session.restore_position),
            tokens.restore_pending.eq(session.restore_pending),
            tokens.restore_has_pending.eq(session.restore_has_pending),
            session.restoring.eq(tokens.restoring),
            session.finished.eq(self._runner.finished),
            session.pass_cycles.eq(self._runner.pass_cycles),
            session.decoding.eq(tokens.decoding),
            session.position.eq(tokens.position),
            session.pending.eq(tokens.pending),
            session.has_pending.eq(tokens.has_pending),
            session.passes.eq(tokens.passes),
        ]
        connect(m, tokens.token, self._token_writer.token)
        beat = Cat(self._reduce.o_word[i] for i in range(self._engine.lanes // 4))
        for unit in (load, state, tokens, session):
            m.d.comb += [unit.beat_valid.eq(self._reduce.o_side), unit.beat.eq(beat)]
            # One unit at a time has the word; the others' valid is low.
            with m.If(unit.side.valid):
                m.d.comb += [self._dispatch.side.valid.eq(1), self._dispatch.side.p.eq(unit.side.p)]
            m.d.comb += unit.side.ready.eq(self._dispatch.side.ready)
        m.d.comb += [self._vector.side_valid.eq(self._reduce.o_side), self._vector.side.eq(beat)]

    def _vectors(self, m):
        """Vector unit: word operations of the runner, the state unit and the session's counter probes."""
        vector, runner, state = self._vector, self._runner, self._state
        load, session = self._load, self._session
        probe = Signal(WordOp)
        counter = Signal(DrainRequest)
        m.d.comb += [
            probe.route.eq(Route.PROBE),
            counter.source.eq(Source.COUNTER),
            counter.columns.eq(1),
            counter.address.eq(session.traffic_index),
        ]
        self._sampling(m)
        asked = session.traffic_request | self._merge.request_valid
        self._request_valid = runner.request_valid | asked
        self._request = Mux(
            session.traffic_request,
            counter.as_value(),
            Mux(self._merge.request_valid, self._following.as_value(), runner.request.as_value()),
        )
        m.d.comb += [
            vector.header.eq(load.header),
            vector.entry.eq(runner.current),
            vector.head_pass.eq(self._tokens.head_pass),
            vector.op_valid.eq(runner.op_valid | state.op_valid | asked),
            vector.op.eq(
                Mux(
                    asked,
                    probe.as_value(),
                    Mux(state.op_valid, state.op.as_value(), runner.op.as_value()),
                )
            ),
            vector.bus.eq(self._reduce.o_word),
            vector.embed_start.eq(runner.embed_start),
            vector.embed_active.eq(runner.embed_active),
            vector.parameter_write.valid.eq(load.parameter_valid),
            vector.parameter_write.address.eq(load.parameter_index),
            vector.parameter_write.word.eq(load.parameter_word),
            vector.gelu_write.valid.eq(load.gelu_valid),
            vector.gelu_write.address.eq(load.gelu_index),
            vector.gelu_write.word.eq(load.gelu_word),
            vector.state_write.valid.eq(state.state_valid),
            vector.membrane_write.valid.eq(state.membrane_valid),
            vector.state_write.address.eq(state.address),
            vector.membrane_write.address.eq(state.address),
            vector.state_write.word.eq(state.value),
            vector.membrane_write.word.eq(state.value),
            state.word_valid.eq(vector.dump_valid),
            state.word.eq(vector.dump_word),
            runner.done.eq(vector.done),
            runner.statistics_done.eq(vector.statistics_done),
            runner.active_valid.eq(vector.active_valid),
            runner.active.eq(vector.active),
            self._argmax.valid.eq(vector.probe_valid & runner.running & ~self._merge.busy),
            self._argmax.first.eq(vector.probe_tag.first),
            self._argmax.word.eq(vector.probe),
        ]
        # A channel answers with the low 16 bits of a count in lane 0 and the rest in lane 1: sums stay exact.
        m.d.sync += [
            session.traffic_valid.eq(vector.probe_valid & ~runner.running),
            session.traffic_value.eq(vector.probe[0].as_unsigned() + (vector.probe[1].as_unsigned() << 16)),
        ]

    def _sampling(self, m):
        """The channels' best rows to the merge, merged candidates to the sampler, its token to the runner."""
        merge, sampler, runner, vector = self._merge, self._sampler, self._runner, self._vector
        self._following = following = Signal(DrainRequest)
        settings, position = Signal(Settings), Signal(21)
        connect(m, merge.offer, sampler.offer)
        m.d.sync += [
            *unpack_settings(self._registers.args, settings),
            position.eq(self._tokens.position + 1),  # of the token that is chosen
        ]
        m.d.comb += [
            following.source.eq(Source.NEXT),
            following.column.eq(merge.channel),
            following.columns.eq(self._engine.channels),
            merge.best_valid.eq(self._argmax.valid),
            merge.first.eq(vector.probe_tag.first),
            merge.word.eq(vector.probe),
            merge.answer_valid.eq(vector.probe_valid & merge.busy),
            merge.start.eq(runner.sample),
            merge.stop.eq(sampler.done),
            sampler.start.eq(runner.sample),
            sampler.settings.eq(settings),
            sampler.position.eq(position),
            runner.sampling.eq(self._session.sampling),
            runner.sampled.eq(sampler.done),
        ]

    def _writes(self, m):
        """Beats for the io buffer leave on the broadcast bus, one source at a time."""
        self._cast_valid, self._cast = Signal(), Signal(broadcast_layout(self._engine))
        self._write_room = Signal()
        writers = (self._token_writer.write, self._state.write, self._mailbox.write)
        vector, load = self._vector, self._load
        m.d.sync += self._cast_valid.eq(0)
        with m.If(vector.cast_valid):
            m.d.sync += [self._cast_valid.eq(1), self._cast.eq(vector.cast)]
        with m.Elif(load.cast_valid):
            m.d.sync += [self._cast_valid.eq(1), self._cast.eq(load.cast)]
        for write in writers:
            with m.Elif(write.valid & self._write_room):
                m.d.comb += write.ready.eq(1)
                m.d.sync += [
                    self._cast_valid.eq(1),
                    self._cast.kind.eq(BroadcastKind.WRITE),
                    self._cast.last.eq(0),
                    self._cast.address.eq(write.p.address),
                    self._cast.word.eq(write.p.word),
                ]

    def _channels(self, m, soft):
        """The channels with a register on every way."""
        engine, args = self._engine, self._registers.args
        channels = []
        resetting, self._abort = Signal(), Signal()
        m.d.sync += [resetting.eq(soft), self._abort.eq(self._session.abort)]
        for k in range(engine.channels):
            # A reset register a channel, to lie where it lies; kept apart though all are equal.
            reset = Signal(init=1, reset_less=True, name=f"reset{k:02d}", attrs=OWN_REGISTER)
            m.d.sync += reset.eq(ResetSignal() | resetting)
            if self._inline:
                channel = Channel(engine)
                m.submodules[f"channel{k:02d}"] = ResetInserter(reset)(channel)
            else:
                channel = ModuleInstance(channel_signature(engine), CHANNEL_MODULE, reset=reset)
                m.submodules[f"channel{k:02d}"] = channel
            channels.append(channel)
            m.d.comb += [
                channel.index.eq(k),
                channel.pointer.eq(getattr(args, f"hbm{k:02d}")),
                channel.io_pointer.eq(args.io),
            ]
            for name in AxiMaster(engine.beat_bytes).members:
                ours, theirs = getattr(self.hbm[k], name), getattr(channel.bus, name)
                outward = self.hbm[k].signature.members[name].flow is Out
                m.d.comb += ours.eq(theirs) if outward else theirs.eq(ours)
        self._to_channels(m, channels)
        self._from_channels(m, channels)

    def _to_channels(self, m, channels):
        dispatch, session = self._dispatch, self._session
        request_valid, request = Signal(), Signal(DrainRequest)
        m.d.sync += request_valid.eq(self._request_valid)
        with m.If(self._request_valid):
            m.d.sync += request.eq(self._request)
        for channel in channels:
            m.d.comb += [
                channel.ring.eq(self._load.header.ring_shape),
                channel.logit_base.eq(self._load.header.logit_base),
                channel.command_valid.eq(dispatch.command_valid),
                channel.command.eq(dispatch.command),
                channel.kv_valid.eq(dispatch.kv_valid),
                channel.kv.eq(dispatch.kv),
                channel.cast_valid.eq(self._cast_valid),
                channel.cast.eq(self._cast),
                channel.request_valid.eq(request_valid),
                channel.request.eq(request),
                channel.clear.eq(session.counters_clear),
                channel.abort.eq(self._abort),
            ]

    def _from_channels(self, m, channels):
        reduce, dispatch, session = self._reduce, self._dispatch, self._session
        m.d.comb += [
            reduce.i_valid.eq(channels[0].drain_valid),
            self._ops.pulses.eq(Cat(c.op_done for c in channels)),
            self._attentions.pulses.eq(Cat(c.attention_done for c in channels)),
        ]
        for k, channel in enumerate(channels):
            m.d.comb += [reduce.i_word[k].eq(channel.drain), reduce.i_side[k].eq(channel.side_valid)]
        # A channel may lie on another die: its status passes a register before anything looks at it.
        states = [Signal(_STATUS, name=f"status{k:02d}") for k in range(len(channels))]
        for status, channel in zip(states, channels):
            m.d.sync += [
                getattr(status, name).eq(getattr(channel, name)[:width])
                for name, width in _STATUS.members.items()
            ]
        m.d.sync += [
            dispatch.command_room.eq(Cat(s.command_room for s in states).all()),
            dispatch.kv_room.eq(Cat(s.kv_room for s in states).all()),
            self._mailbox.writes_quiet.eq(Cat(s.write_quiet for s in states).all()),
            self._write_room.eq(states[0].write_room),
            session.fault.eq(Cat(s.fault for s in states).any()),
        ]
        m.submodules.ports = ports = PortWatch(len(states))
        m.d.comb += [
            ports.quiet.eq(Cat(s.quiet for s in states)),
            ports.waiting.eq(session.waiting),
            session.channels_quiet.eq(ports.all_quiet),
            session.stuck.eq(ports.stuck),
            session.stuck_channel.eq(ports.channel),
        ]
        for k, status in reversed(list(enumerate(states))):
            with m.If(status.fault):
                m.d.sync += [
                    session.fault_channel.eq(k),
                    session.fault_write.eq(status.fault_write),
                    session.fault_address.eq(status.fault_address),
                ]
