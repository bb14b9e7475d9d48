"""Table, dispatcher, runner, token loop and session, and the units that do the session's commands."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib.wiring import connect

from ..counters import ADD
from .parts import Parts


def join_sequencing(m: Module, parts: Parts):
    """Table, dispatcher, runner and token loop."""
    table, dispatch, runner, tokens = parts.table, parts.dispatch, parts.runner, parts.tokens
    load, session = parts.load, parts.session
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
        dispatch.candidates.eq(session.sampling | session.listing),
        dispatch.go.eq(tokens.go),
        dispatch.info.eq(tokens.info),
        runner.header.eq(load.header),
        runner.head_pass.eq(tokens.head_pass),
        runner.go.eq(tokens.go),
        runner.op_ready.eq(parts.ops.ready),
        runner.attention_ready.eq(parts.attentions.ready),
        parts.ops.consume.eq(runner.op_consume),
        parts.attentions.consume.eq(runner.attention_consume),
        tokens.header.eq(load.header),
        tokens.finished.eq(runner.finished),
        tokens.best.eq(Mux(session.sampling, parts.choice.token, parts.argmax.best)),
    ]
    add_valid, add = Signal(), Signal(ADD)
    m.d.sync += [
        add_valid.eq(runner.add_valid | session.add_valid),
        add.index.eq(Mux(session.add_valid, session.add_index, runner.add_index)),
        add.amount.eq(Mux(session.add_valid, session.add_amount, runner.add_amount)),
    ]
    m.d.comb += [parts.counters.add.valid.eq(add_valid), parts.counters.add.p.eq(add)]
    # Neither waits: they take turns by construction, and the queue in front of the counters takes their
    # bursts.
    m.d.sync += Assert(~(runner.add_valid & session.add_valid), "session and runner add in the same cycle")
    with m.If(parts.counters.add.valid):
        m.d.sync += Assert(parts.counters.add.ready, "an addition to a counter is lost")


def join_session(m: Module, parts: Parts):
    """Session to the units that do its commands; all their DIRECT_READ commands and beats."""
    session, load, state, tokens = parts.session, parts.load, parts.state, parts.tokens
    args = parts.control.args
    m.d.comb += [
        load.start.eq(session.load_start),
        session.load_done.eq(load.done),
        session.load_failed.eq(load.failed),
        load.gelu_busy.eq(parts.vector.gelu_busy),
        state.header.eq(load.header),
        state.start.eq(session.state_start),
        state.action.eq(session.state_action),
        session.state_done.eq(state.done),
        tokens.n_prompt.eq(args.n_prompt),
        tokens.n_new.eq(args.n_new),
        tokens.eos.eq(args.eos),
        tokens.start.eq(session.tokens_start),
        tokens.replace_pending.eq(session.replace_pending),
        tokens.every_head.eq(session.every_head),
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
        session.finished.eq(parts.runner.finished),
        session.pass_cycles.eq(parts.runner.pass_cycles),
        session.decoding.eq(tokens.decoding),
        session.position.eq(tokens.position),
        session.pending.eq(tokens.pending),
        session.has_pending.eq(tokens.has_pending),
        session.passes.eq(tokens.passes),
    ]
    connect(m, tokens.token, parts.token_writer.token)
    beat = Cat(parts.reduce.o_word[i] for i in range(parts.engine.lanes // 4))
    for unit in (load, state, tokens, session):
        m.d.comb += [unit.beat_valid.eq(parts.reduce.o_side), unit.beat.eq(beat)]
        # One unit at a time has the word; the others' valid is low.
        with m.If(unit.side.valid):
            m.d.comb += [parts.dispatch.side.valid.eq(1), parts.dispatch.side.p.eq(unit.side.p)]
        m.d.comb += unit.side.ready.eq(parts.dispatch.side.ready)
    m.d.comb += [parts.vector.side_valid.eq(parts.reduce.o_side), parts.vector.side.eq(beat)]
