"""The residual stream: its memories, LayerNorm, and what is derived from a new residual word.

y ─► + 2 * (c or u) ─► pre memory ─► statistics
                           │              │
                           └─► normalise ─┴─► c or u memory, spikes, events or head input ─► broadcast
"""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from symlight.model.config import PRE_BITS

from ..config import Engine
from ..lib.pipeline import Pipeline
from ..types import Header, NormParameter, OpEntry, Task
from .decay import ResidualSum
from .event import ScalarEvent
from .layernorm import LayerNormNormalise, LayerNormStatistics
from .words import Route, WordOp


class ResidualPath(wiring.Component):
    """Residual stream, LayerNorm and the events behind it.

    A word enters once a cycle on one of three ways, never two at once: a requantised word (`y_*`), a
    normalise request (`op_*`, with the parameter word two cycles later), or an embedding word (`x_*`). No
    back-pressure.

    Attributes
    ----------
    NORMALISE_LATENCY : int
        Cycles from a normalise request to its broadcast word.
    EMBED_LATENCY : int
        Cycles from an embedding word to its broadcast word.
    SUM_LATENCY : int
        Cycles from `y_valid` to the pre-LayerNorm memory.

    Members
    -------
    header, entry : In
        Shape and scalars; quasi-static.
    head_pass : In
        The head is evaluated in this pass, so the last LayerNorm broadcasts.
    ahead_valid, ahead : In
        The tag of `y` one cycle before it (addresses the residual memories).
    y_valid, y, y_tag : In
        A requantised word, 18 bits an element.
    op_valid, op : In
        NORMALISE, SPIKES and REPLAY requests.
    parameter : In
        NORMALISE: the word's `NormParameter`s, two cycles after the request.
    x_valid, x, x_index, x_last, x_spikes : In
        Embedding word (Q4.11); its spikes come `x_spikes_valid` later with `x_spikes_index`.
    statistics_done : Out
        Pulse: normalise requests may start in the next cycle; mean and root are ready when the first one
        has read its word.
    cast_valid, cast_word, cast_index : Out
        Word for the broadcast bus, int8.
    done : Out
        Pulse with the last word of a step, broadcast or not.
    written : Out
        Pulse: the last word of a RESIDUAL step is in the memory (statistics follow).
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        lanes = engine.lanes
        self._normalise = LayerNormNormalise(lanes)
        self._event = ScalarEvent(lanes)
        self._sum = ResidualSum(lanes)
        self.SUM_LATENCY = self._sum.LATENCY
        self._y_stage = 2 + self._normalise.LATENCY
        self.NORMALISE_LATENCY = self._y_stage + self._event.LATENCY
        self.EMBED_LATENCY = self._event.LATENCY
        super().__init__(
            {
                "header": In(Header),
                "entry": In(OpEntry),
                "head_pass": In(1),
                "ahead_valid": In(1),
                "ahead": In(WordOp),
                "y_valid": In(1),
                "y": In(data.ArrayLayout(signed(PRE_BITS), lanes)),
                "y_tag": In(WordOp),
                "op_valid": In(1),
                "op": In(WordOp),
                "parameter": In(data.ArrayLayout(NormParameter, lanes)),
                "x_valid": In(1),
                "x": In(data.ArrayLayout(signed(16), lanes)),
                "x_index": In(8),
                "x_last": In(1),
                "x_spikes_valid": In(1),
                "x_spikes": In(lanes),
                "x_spikes_index": In(8),
                "statistics_done": Out(1),
                "written": Out(1),
                "cast_valid": Out(1),
                "cast_word": Out(data.ArrayLayout(signed(8), lanes)),
                "cast_index": Out(8),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine, lanes = self._engine, self._engine.lanes
        word = data.ArrayLayout(signed(16), lanes)
        m.submodules.c_memory = c_memory = Memory(shape=word, depth=engine.width_words, init=[])
        m.submodules.u_memory = u_memory = Memory(shape=word, depth=engine.width_words, init=[])
        # A read of the residual and its write are a whole task apart; the ports need no transparency.
        self._sums(m, c_memory, u_memory)
        y_valid, y, y_tag, tau = self._normalised(m)
        self._new_words(m, c_memory, u_memory, y_valid, y, y_tag)
        self._spikes_and_casts(m, y_valid, y, y_tag, tau)
        return m

    def _sums(self, m, c_memory, u_memory):
        """y + 2 * residual into the pre memory and the statistics."""
        c_read, u_read = c_memory.read_port(), u_memory.read_port()
        m.submodules.sum = adder = self._sum
        m.submodules.statistics = statistics = LayerNormStatistics(
            self._engine.lanes, self._engine.width_words
        )
        index = self.ahead.index
        m.d.comb += [
            c_read.addr.eq(index),
            c_read.en.eq(self.ahead_valid),
            u_read.addr.eq(index),
            u_read.en.eq(self.ahead_valid),
            adder.i_valid.eq(self.y_valid),
            adder.y.eq(self.y),
            adder.residual.eq(
                Mux(self.entry.task == Task.NORM_U, c_read.data.as_value(), u_read.data.as_value())
            ),
        ]
        pipe = Pipeline(m, self.y_valid, adder.LATENCY)
        tag = WordOp(pipe.carry(0, adder.LATENCY, self.y_tag, "sum_tag"))
        m.submodules.pre_memory = pre = Memory(
            shape=data.ArrayLayout(signed(PRE_BITS), self._engine.lanes),
            depth=self._engine.width_words,
            init=[],
        )
        write = pre.write_port()
        self._pre_read = pre.read_port()
        m.d.comb += [
            write.addr.eq(tag.index),
            write.data.eq(adder.pre),
            write.en.eq(adder.o_valid),
            self.written.eq(adder.o_valid & tag.last),
            statistics.i_valid.eq(adder.o_valid),
            statistics.i_first.eq(tag.first),
            statistics.i_last.eq(tag.last),
            statistics.pre.eq(adder.pre),
            statistics.width.eq(self.header.width),
            statistics.inv_width.eq(self.header.inv_width),
            statistics.epsilon.eq(self.entry.epsilon),
            self.statistics_done.eq(statistics.soon),
        ]
        self._statistics = statistics

    def _normalised(self, m):
        """NORMALISE requests through the LayerNorm; returns (valid, y, tag, tau)."""
        request = self.op_valid & (self.op.route == Route.NORMALISE)
        pipe = Pipeline(m, request, self._y_stage)
        first = WordOp(pipe.carry(0, 1, self.op, "norm_tag"))
        m.submodules.normalise = normalise = self._normalise
        m.d.comb += [
            self._pre_read.addr.eq(first.index),
            self._pre_read.en.eq(pipe.valid[1]),
            normalise.i_valid.eq(pipe.valid[2]),
            normalise.pre.eq(self._pre_read.data),
            normalise.mean.eq(self._statistics.mean),
            normalise.e.eq(self._statistics.e),
            normalise.r.eq(self._statistics.r),
            normalise.gamma_shift.eq(self.entry.gamma_shift),
        ]
        m.d.comb += [normalise.gamma[i].eq(self.parameter[i].gamma) for i in range(self._engine.lanes)]
        m.d.comb += [normalise.beta[i].eq(self.parameter[i].beta) for i in range(self._engine.lanes)]
        # From the pulse to here: the request's register, the address, the memory.
        pending = Signal(range(LayerNormStatistics.SOON + 1))
        with m.If(self._statistics.soon):
            m.d.sync += pending.eq(LayerNormStatistics.SOON)
        with m.Elif(pending != 0):
            m.d.sync += pending.eq(pending - 1)
        with m.If(pipe.valid[2]):
            m.d.sync += Assert(pending <= 1, "a word is normalised before its statistics are there")
        tag = WordOp(pipe.carry(1, self._y_stage, first, "norm_tag"))
        tau = [
            pipe.carry(2, self._y_stage, self.parameter[i].tau, "tau").as_signed()
            for i in range(self._engine.lanes)
        ]
        return normalise.o_valid, normalise.y, tag, tau

    def _new_words(self, m, c_memory, u_memory, y_valid, y, tag):
        """New residual words into their memory: u after W_O, c after W_down and from the embedding."""
        c_write, u_write = c_memory.write_port(), u_memory.write_port()
        to_u = self.entry.task == Task.NORM_U
        m.d.comb += [
            u_write.addr.eq(tag.index),
            u_write.data.eq(y),
            u_write.en.eq(y_valid & to_u),
            c_write.addr.eq(Mux(self.x_valid, self.x_index, tag.index)),
            c_write.data.eq(Mux(self.x_valid, self.x.as_value(), y.as_value())),
            c_write.en.eq(self.x_valid | (y_valid & ~to_u)),
        ]

    def _spikes_and_casts(self, m, y_valid, y, tag, tau):
        """Spikes of new words, their events, and the broadcast words of all ways."""
        lanes, depth = self._engine.lanes, self._engine.width_words
        m.submodules.spikes = spikes = Memory(shape=lanes, depth=depth, init=[])
        m.submodules.inputs = inputs = Memory(shape=data.ArrayLayout(signed(8), lanes), depth=depth, init=[])
        spike_write, spike_read = spikes.write_port(), spikes.read_port()
        input_write, input_read = inputs.write_port(), inputs.read_port()
        m.d.comb += [
            spike_write.addr.eq(Mux(self.x_spikes_valid, self.x_spikes_index, tag.index)),
            spike_write.data.eq(
                Mux(self.x_spikes_valid, self.x_spikes, Cat(y[i] >= tau[i] for i in range(lanes)))
            ),
            spike_write.en.eq(self.x_spikes_valid | (y_valid & (self.entry.task == Task.NORM_C))),
        ]
        m.submodules.event = event = self._event
        valid = self.x_valid | y_valid
        m.d.comb += [
            event.i_valid.eq(valid),
            event.x.eq(Mux(self.x_valid, self.x.as_value(), y.as_value())),
            event.threshold.eq(self.entry.threshold),
            event.multiplier.eq(self.entry.multiplier_a),
            event.shift.eq(self.entry.shift_a),
        ]
        pipe = Pipeline(m, valid, event.LATENCY)
        last = pipe.carry(0, event.LATENCY, Mux(self.x_valid, self.x_last, tag.last), "event_last")
        index = pipe.carry(0, event.LATENCY, Mux(self.x_valid, self.x_index, tag.index), "event_index")
        m.d.comb += [
            input_write.addr.eq(index),
            input_write.data.eq(event.e),
            input_write.en.eq(event.o_valid),
            spike_read.addr.eq(self.op.index),
            input_read.addr.eq(self.op.index),
        ]
        replay = Pipeline(
            m, self.op_valid & ((self.op.route == Route.SPIKES) | (self.op.route == Route.REPLAY)), 1
        )
        replay_tag = WordOp(replay.carry(0, 1, self.op, "replay_tag"))
        # Without the head, nobody consumes the last LayerNorm's broadcast.
        silent = self.entry.to_head & ~self.head_pass
        with m.If(replay.valid[1]):
            m.d.comb += [
                self.cast_valid.eq(1),
                self.done.eq(replay_tag.last),
                self.cast_index.eq(replay_tag.index),
            ]
            for i in range(lanes):
                m.d.comb += self.cast_word[i].eq(
                    Mux(replay_tag.route == Route.SPIKES, spike_read.data[i], input_read.data[i])
                )
        with m.Else():
            m.d.comb += [
                self.cast_valid.eq(event.o_valid & ~silent),
                self.done.eq(event.o_valid & last),
                self.cast_index.eq(index),
                self.cast_word.eq(event.e),
            ]
