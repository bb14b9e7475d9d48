"""The broadcast bus, drain requests, and a channel for every pseudo-channel."""

from amaranth.hdl import Cat, Module, ResetInserter, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from ..channel.channel import Channel
from ..channel.channel_ports import channel_signature
from ..lib.instance import ModuleInstance
from ..sequencer.port_watch import PortWatch
from ..types import BroadcastKind, DrainRequest
from .parts import Parts

CHANNEL_MODULE = "symlight_channel"
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


def join_writes(m: Module, parts: Parts):
    """Beats for the io buffer leave on the broadcast bus, one source at a time."""
    writers = (parts.token_writer.write, parts.state.write, parts.choice.write, parts.mailbox.write)
    vector, load = parts.vector, parts.load
    m.d.sync += parts.cast_valid.eq(0)
    with m.If(vector.cast_valid):
        m.d.sync += [parts.cast_valid.eq(1), parts.cast.eq(vector.cast)]
    with m.Elif(load.cast_valid):
        m.d.sync += [parts.cast_valid.eq(1), parts.cast.eq(load.cast)]
    for write in writers:
        with m.Elif(write.valid & parts.write_room):
            m.d.comb += write.ready.eq(1)
            m.d.sync += [
                parts.cast_valid.eq(1),
                parts.cast.kind.eq(BroadcastKind.WRITE),
                parts.cast.last.eq(0),
                parts.cast.address.eq(write.p.address),
                parts.cast.word.eq(write.p.word),
            ]


def join_channels(m: Module, parts: Parts, hbm, *, inline: bool):
    """The channels with a register on every way.

    Parameters
    ----------
    hbm
        The kernel's memory ports.
    inline : bool
        Elaborate the channels in place instead of instantiating `CHANNEL_MODULE`.
    """
    engine, args = parts.engine, parts.control.args
    channels = []
    resetting = Signal()
    m.d.sync += [resetting.eq(parts.session.soft_reset), parts.abort.eq(parts.session.abort)]
    for k in range(engine.channels):
        # A reset register a channel, to lie where it lies; kept apart though all are equal.
        reset = Signal(init=1, reset_less=True, name=f"reset{k:02d}", attrs=OWN_REGISTER)
        m.d.sync += reset.eq(ResetSignal() | resetting)
        if inline:
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
        connect(m, channel.bus, flipped(hbm[k]))
    _to_channels(m, parts, channels)
    _from_channels(m, parts, channels)


def _to_channels(m: Module, parts: Parts, channels):
    dispatch, session = parts.dispatch, parts.session
    request_valid, request = Signal(), Signal(DrainRequest)
    logit_base = Signal.like(parts.tokens.logit_base)
    m.d.sync += [request_valid.eq(parts.request_valid), logit_base.eq(parts.tokens.logit_base)]
    with m.If(parts.request_valid):
        m.d.sync += request.eq(parts.request)
    for channel in channels:
        m.d.comb += [
            channel.ring.eq(parts.load.header.ring_shape),
            channel.logit_base.eq(logit_base),
            channel.command_valid.eq(dispatch.command_valid),
            channel.command.eq(dispatch.command),
            channel.kv_valid.eq(dispatch.kv_valid),
            channel.kv.eq(dispatch.kv),
            channel.cast_valid.eq(parts.cast_valid),
            channel.cast.eq(parts.cast),
            channel.request_valid.eq(request_valid),
            channel.request.eq(request),
            channel.clear.eq(session.counters_clear),
            channel.abort.eq(parts.abort),
        ]


def _from_channels(m: Module, parts: Parts, channels):
    reduce, dispatch, session = parts.reduce, parts.dispatch, parts.session
    m.d.comb += [
        reduce.i_valid.eq(channels[0].drain_valid),
        parts.ops.pulses.eq(Cat(c.op_done for c in channels)),
        parts.attentions.pulses.eq(Cat(c.attention_done for c in channels)),
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
        parts.mailbox.writes_quiet.eq(Cat(s.write_quiet for s in states).all()),
        parts.write_room.eq(states[0].write_room),
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
