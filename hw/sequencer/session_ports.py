"""Ports of the session: to the host's registers, to the units that do the work, to the report."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..control import argument_layout
from ..interface import CHANNEL_BITS, ErrorCode, StopReason
from ..mailbox import mailbox_fields
from ..types import ChannelCommand
from .state_transfer import StateAction


def session_signature(engine: Engine) -> wiring.Signature:
    """Ports of a `Session`.

    Members
    -------
    start, args : In
        From the control registers.
    done : Out
        Pulse: the mailbox is in memory.
    running : Out
    dense, full_kv, logits, every_head, sampling, listing, replace_pending : Out
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
    waiting, stuck, stuck_channel : Out, In, In
        An aborted run waits for that; it never comes, and a channel that owes it (`PortWatch`).
    soft_reset : Out
        Everything but the session's registers starts afresh.
    traffic_request, traffic_index, traffic_column, traffic_valid, traffic_value : Out, Out, Out, In, In
        Sum over the channels of the read beats of one kind.
    finished, pass_cycles, decoding : In
        End of a pass, its cycles, and whether its input token was generated in this run.
    add_valid, add_index, add_amount : Out
        Additions to the counters; at most two in a row while passes run.
    mailbox_start, mailbox_done, fields : Out, In, Out
    position, pending, has_pending, passes, n_tokens : In
        For the mailbox.
    """
    return wiring.Signature(
        {
            "start": In(1),
            "args": In(argument_layout(engine)),
            "done": Out(1),
            "running": Out(1),
            "dense": Out(1),
            "full_kv": Out(1),
            "logits": Out(1),
            "sampling": Out(1),
            "listing": Out(1),
            "every_head": Out(1),
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
            "fault_channel": In(CHANNEL_BITS),
            "fault_address": In(32),
            "abort": Out(1),
            "channels_quiet": In(1),
            "waiting": Out(1),
            "stuck": In(1),
            "stuck_channel": In(CHANNEL_BITS),
            "soft_reset": Out(1),
            "traffic_request": Out(1),
            "traffic_index": Out(4),
            "traffic_column": Out(6),
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
