"""Ports of the task runner."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import DrainRequest, Header, OpEntry
from ..vector.words import WordOp


def task_signature(engine: Engine) -> wiring.Signature:
    """Ports of a `TaskRunner`.

    Members
    -------
    header, head_pass, go : In
        Shape; whether the head is evaluated; pulse that starts a pass.
    index, entry : Out, In
        Port of the operation table.
    current : Out
        Entry of the running task, for the vector unit.
    op_ready, attention_ready : In
        All channels have finished the next operation, their attention.
    op_consume, attention_consume : Out
    op_valid, op, request_valid, request : Out
        Word operation and the drain request of the same cycle.
    done, statistics_done : In
        From the vector unit.
    chooses, choose, chosen : In, Out, In
        Whether more than the largest logit is wanted after the head; pulse that asks for it; pulse when it is
        there.
    embed_start, embed_active : Out
        The embedding row is expected.
    active_valid, active : In
        Nonzero elements of a broadcast word.
    add_valid, add_index, add_amount : Out
        Additions to the counters; at most three in a row, then many cycles none.
    finished : Out
        Pulse: the pass is over; with `pass_cycles`.
    running : Out
    """
    return wiring.Signature(
        {
            "header": In(Header),
            "head_pass": In(1),
            "go": In(1),
            "index": Out(10),
            "entry": In(OpEntry),
            "current": Out(OpEntry),
            "op_ready": In(1),
            "attention_ready": In(1),
            "op_consume": Out(1),
            "attention_consume": Out(1),
            "op_valid": Out(1),
            "op": Out(WordOp),
            "request_valid": Out(1),
            "request": Out(DrainRequest),
            "done": In(1),
            "statistics_done": In(1),
            "chooses": In(1),
            "choose": Out(1),
            "chosen": In(1),
            "embed_start": Out(1),
            "embed_active": Out(1),
            "active_valid": In(1),
            "active": In(range(engine.lanes + 1)),
            "add_valid": Out(1),
            "add_index": Out(7),
            "add_amount": Out(32),
            "finished": Out(1),
            "pass_cycles": Out(32),
            "running": Out(1),
        }
    )
