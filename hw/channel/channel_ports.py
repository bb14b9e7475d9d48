"""Ports of a channel."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..axi import ADDRESS_BITS, FAULT_BITS, AxiMaster
from ..config import Engine
from ..types import (
    BEAT_ADDRESS,
    CHANNEL_BITS,
    ChannelCommand,
    DrainRequest,
    KvCommand,
    RingShape,
    broadcast_layout,
    drain_layout,
)


def channel_signature(engine: Engine) -> wiring.Signature:
    """Ports of a `Channel`."""
    return wiring.Signature(
        {
            "index": In(CHANNEL_BITS),
            "pointer": In(ADDRESS_BITS),
            "io_pointer": In(ADDRESS_BITS),
            "ring": In(RingShape),
            "logit_base": In(BEAT_ADDRESS),
            "command_valid": In(1),
            "command": In(ChannelCommand),
            "command_room": Out(1),
            "kv_valid": In(1),
            "kv": In(KvCommand),
            "kv_room": Out(1),
            "cast_valid": In(1),
            "cast": In(broadcast_layout(engine)),
            "write_room": Out(1),
            "request_valid": In(1),
            "request": In(DrainRequest),
            "drain_valid": Out(1),
            "drain": Out(drain_layout(engine)),
            "side_valid": Out(1),
            "op_done": Out(1),
            "attention_done": Out(1),
            "clear": In(1),
            "abort": In(1),
            "quiet": Out(1),
            "write_quiet": Out(1),
            "fault": Out(1),
            "fault_write": Out(1),
            "fault_address": Out(FAULT_BITS),
            "bus": Out(AxiMaster(engine.beat_bytes)),
        }
    )
