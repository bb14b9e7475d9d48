"""The vector unit: its words and requests, and what answers are for: argmax, choice, counters."""

from amaranth.hdl import Module, Mux, Signal

from ..sequencer.sampler import Settings
from ..sequencer.sampler_arguments import unpack_settings
from ..types import DrainRequest, Source
from ..vector.words import Route, WordOp
from .parts import Parts


def join_vectors(m: Module, parts: Parts):
    """Vector unit: word operations of the runner, the state unit and the session's counter probes."""
    vector, runner, state = parts.vector, parts.runner, parts.state
    load, session = parts.load, parts.session
    probe = Signal(WordOp)
    counter = Signal(DrainRequest)
    m.d.comb += [
        probe.route.eq(Route.PROBE),
        probe.index.eq(parts.choice.channel),
        counter.source.eq(Source.COUNTER),
        counter.column.eq(session.traffic_column),
        counter.columns.eq(parts.engine.joined),
        counter.address.eq(session.traffic_index),
    ]
    following = _join_choice(m, parts)
    asked = session.traffic_request | parts.choice.request_valid
    request = Mux(
        session.traffic_request,
        counter.as_value(),
        Mux(parts.choice.request_valid, following.as_value(), runner.request.as_value()),
    )
    m.d.comb += [
        parts.request_valid.eq(runner.request_valid | asked),
        parts.request.eq(request),
        vector.header.eq(load.header),
        vector.entry.eq(runner.current),
        vector.head_pass.eq(parts.tokens.head_pass),
        vector.op_valid.eq(runner.op_valid | state.op_valid | asked),
        vector.op.eq(
            Mux(
                asked,
                probe.as_value(),
                Mux(state.op_valid, state.op.as_value(), runner.op.as_value()),
            )
        ),
        vector.bus.eq(parts.reduce.o_word),
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
        parts.argmax.valid.eq(vector.probe_valid & runner.running & ~parts.choice.busy),
        parts.argmax.first.eq(vector.probe_tag.first),
        parts.argmax.word.eq(vector.probe),
    ]
    # A channel answers with the low 16 bits of a count in lane 0 and the rest in lane 1: sums stay exact.
    m.d.sync += [
        session.traffic_valid.eq(vector.probe_valid & ~runner.running),
        session.traffic_value.eq(vector.probe[0].as_unsigned() + (vector.probe[1].as_unsigned() << 16)),
    ]


def _join_choice(m: Module, parts: Parts):
    """The channels' best rows and the answers behind them to the choice, its token to the runner."""
    choice, runner, vector, session = parts.choice, parts.runner, parts.vector, parts.session
    following = Signal(DrainRequest)
    settings, position = Signal(Settings), Signal(21)
    m.d.sync += [
        *unpack_settings(parts.control.args, settings),
        position.eq(parts.tokens.position + 1),  # of the token that is chosen
    ]
    m.d.comb += [
        following.source.eq(Source.NEXT),
        following.column.eq(choice.channel),
        following.columns.eq(parts.engine.channels),
        choice.sampling.eq(session.sampling),
        choice.listing.eq(session.listing),
        choice.settings.eq(settings),
        choice.position.eq(position),
        choice.number.eq(parts.token_writer.count),
        choice.best_valid.eq(parts.argmax.valid),
        choice.first.eq(vector.probe_tag.first),
        choice.word.eq(vector.probe),
        choice.answer_valid.eq(vector.probe_valid & choice.busy),
        choice.answer_channel.eq(vector.probe_tag.index),
        choice.start.eq(runner.choose),
        runner.chooses.eq(session.sampling | session.listing),
        runner.chosen.eq(choice.done),
    ]
    return following
