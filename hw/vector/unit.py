"""The vector unit: everything that works on whole vectors, a word of `lanes` elements a cycle.

    word op ─► tags (delay) ─────────────┬───────────────┬──────────────┐
    drain bus ─► event / requantise ─────┤ decay path    │ residual path│ fusion path ─► broadcast word
                 step, GELU              │               │              │
    side beats ─► encoder path ──────────────────────────┘
    parameter memory ─► one word a drained or normalised word

The task runner issues at most one `WordOp` a cycle and starts a new step only when the last one is `done`, so
routes never meet in a stage and the paths need no arbitration.
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..lib.pipeline import Pipeline
from ..types import (
    PARAMETER_BITS,
    BroadcastKind,
    Header,
    OpEntry,
    ScaleParameter,
    StepParameter,
    broadcast_layout,
    drain_layout,
)
from .attention import FusionPath
from .event import Eventise, PopCount, StepThreshold
from .gelu import Gelu
from .residual import ResidualPath
from .session_state import DecayPath, EncoderPath, word16
from .words import Route, WordOp

CAST_REGISTERS = 0  # from a path's word to the broadcast bus
DONE_REGISTERS = 1  # from a path's last word to `done`


class VectorUnit(wiring.Component):
    """Requantise, eventise, thresholds, LayerNorm, LIF, decay, gate fusion, GELU on words of the drain bus.

    Parameters
    ----------
    engine : Engine
    drain_latency : int
        Cycles from a word op (and its drain request) to its word on `bus`; at least 3.

    Members
    -------
    header, entry, head_pass : In
        Shape, scalars of the current operation, and whether the head is evaluated; quasi-static.
    op_valid, op : In
        Word operation.
    bus : In
        Drain bus behind the group reduction.
    side_valid, side : In
        A beat that a channel read for the vector unit.
    embed_start, embed_active : In
        Pulse before the first embedding beat; beats belong to an embedding row.
    parameter_write : In (valid, address, word)
    gelu_write : In (valid, index, word), gelu_busy : Out
        A word takes `lanes` cycles; the next must wait for `gelu_busy` to fall.
    state_write, membrane_write : In (valid, address, word)
        Restore and reset sweep.
    cast : Out
        Word for the broadcast bus (`cast_valid`), from its path in the same cycle: zero without.
    done : Out
        Pulse: the last word of the step has left for the bus or lies in its memory.
    statistics_done : Out
        Pulse: normalise requests may start.
    probe_valid, probe, probe_tag : Out
        A drained word for the sequencer.
    dump_valid, dump_word : Out
        MEMBRANE and STATE words, three cycles behind the op.
    active_valid, active : Out
        Nonzero elements of each broadcast VECTOR word.
    """

    def __init__(self, engine: Engine, *, drain_latency: int):
        if drain_latency < 3:
            raise ValueError(
                f"drain latency {drain_latency} leaves no time to read parameters; 3 is the least"
            )
        self._engine, self._drain = engine, drain_latency
        lanes = engine.lanes
        self._fusion = FusionPath(engine)
        self.RECIPROCAL_LATENCY, self.FUSION_LATENCY = self._fusion.RECIPROCAL_LATENCY, self._fusion.LATENCY
        parameter = data.ArrayLayout(PARAMETER_BITS, lanes)
        super().__init__(
            {
                "header": In(Header),
                "entry": In(OpEntry),
                "head_pass": In(1),
                "op_valid": In(1),
                "op": In(WordOp),
                "bus": In(drain_layout(engine)),
                "side_valid": In(1),
                "side": In(8 * lanes),
                "embed_start": In(1),
                "embed_active": In(1),
                "parameter_write": In(_write_port(parameter, 13)),
                "gelu_write": In(_write_port(data.ArrayLayout(signed(8), lanes), 5)),
                "gelu_busy": Out(1),
                "state_write": In(_write_port(word16(engine), 10)),
                "membrane_write": In(_write_port(word16(engine), 10)),
                "cast_valid": Out(1),
                "cast": Out(broadcast_layout(engine)),
                "done": Out(1),
                "statistics_done": Out(1),
                "probe_valid": Out(1),
                "probe": Out(drain_layout(engine)),
                "probe_tag": Out(WordOp),
                "dump_valid": Out(1),
                "dump_word": Out(word16(engine)),
                "active_valid": Out(1),
                "active": Out(range(lanes + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        event_stage = self._drain + Eventise.LATENCY
        tags = Pipeline(m, self.op_valid, event_stage)
        self._valid = tags.valid
        self._tags = [self.op]
        for stage in range(1, event_stage + 1):
            self._tags.append(WordOp(tags.reg(stage, self._tags[-1], "tag")))
        parameter = self._parameters(m)
        self._sources = []  # (valid, kind, last, index, word) of every path that broadcasts
        self._dones = []
        y_valid, y, y_tag, y_parameter = self._drained(m, parameter)
        self._decay(m, y_valid, y, y_tag, y_parameter)
        self._residual(m, y_valid, y, y_tag, parameter)
        self._broadcast(m)
        return m

    def _at(self, stage: int, *routes: Route):
        """A tag of one of `routes` is at `stage`."""
        hit = Cat(self._tags[stage].route == route for route in routes).any()
        return self._valid[stage] & hit

    def _parameters(self, m):
        """The parameter memory: a word op's parameters reach `drain_latency`, a NORMALISE's stage 2."""
        lanes, early = self._engine.lanes, self._drain - 2
        m.submodules.parameter_memory = memory = Memory(
            shape=data.ArrayLayout(PARAMETER_BITS, lanes),
            depth=self._engine.parameter_words,
            init=[],
            attrs={"ram_style": "ultra"},
        )
        write, read = memory.write_port(), memory.read_port(transparent_for=())
        normalise = self._at(0, Route.NORMALISE)
        late = self._at(early, Route.EVENT, Route.DECAY, Route.RESIDUAL, Route.STEP, Route.GELU)
        m.d.comb += [
            write.en.eq(self.parameter_write.valid),
            write.addr.eq(self.parameter_write.address),
            write.data.eq(self.parameter_write.word),
            read.en.eq(normalise | late),
            read.addr.eq(Mux(late, self._tags[early].parameter, self.op.parameter)),
        ]
        # A second register, as UltraRAM has.
        word = Signal(data.ArrayLayout(PARAMETER_BITS, lanes))
        reading = Signal()
        m.d.sync += reading.eq(read.en)
        with m.If(reading):
            m.d.sync += word.eq(read.data)
        return word

    def _drained(self, m, parameter):
        """Routes that start with a drained accumulator word; returns the requantised word with its tag and
        parameters."""
        lanes, d, acc_bits = self._engine.lanes, self._drain, self._engine.matrix_bits
        scale = [ScaleParameter(parameter[i]) for i in range(lanes)]
        m.submodules.eventise = eventise = Eventise(lanes, acc_bits=acc_bits)
        m.submodules.step = step = StepThreshold(lanes)
        m.submodules.gelu = gelu = Gelu(lanes)
        requantised = self._at(d, Route.EVENT, Route.DECAY, Route.RESIDUAL, Route.GELU)
        m.d.comb += [
            eventise.i_valid.eq(requantised),
            step.i_valid.eq(self._at(d, Route.STEP)),
            step.acc.eq(self.bus),
            gelu.w_valid.eq(self.gelu_write.valid),
            gelu.w_word.eq(self.gelu_write.address),
            gelu.w_values.eq(self.gelu_write.word),
            self.gelu_busy.eq(gelu.busy),
        ]
        for i in range(lanes):
            m.d.comb += [
                eventise.acc[i].eq(self.bus[i][:acc_bits]),
                eventise.threshold[i].eq(scale[i].extra),
                eventise.multiplier[i].eq(scale[i].multiplier),
                eventise.shift[i].eq(scale[i].shift),
                step.threshold[i].eq(StepParameter(parameter[i]).threshold),
            ]
        y_stage, e_stage = d + eventise.LATENCY - 1, d + eventise.LATENCY
        y_tag, e_tag, s_tag = self._tags[y_stage], self._tags[e_stage], self._tags[d + step.LATENCY]
        hold = Pipeline(m, self._at(d, Route.DECAY), eventise.LATENCY - 1)
        y_parameter = data.View(
            data.ArrayLayout(ScaleParameter, lanes), hold.carry(0, eventise.LATENCY - 1, parameter, "scale")
        )
        m.d.comb += gelu.i_valid.eq(self._at(y_stage, Route.GELU))
        m.d.comb += gelu.y.eq(eventise.y)
        gelu_tags = Pipeline(m, gelu.i_valid, gelu.LATENCY)
        g_tag = WordOp(gelu_tags.carry(0, gelu.LATENCY, y_tag, "gelu_tag"))
        event_valid = self._at(e_stage, Route.EVENT)
        bits = data.View(
            data.ArrayLayout(signed(8), lanes), Cat(Cat(step.bits[i], C(0, 7)) for i in range(lanes))
        )
        self._sources += [
            (
                event_valid,
                e_tag.kind,
                e_tag.last & (e_tag.kind == BroadcastKind.VALUE),
                e_tag.sub,
                eventise.e,
            ),
            (step.o_valid, BroadcastKind.VECTOR, 0, s_tag.index, bits),
            (gelu.o_valid, BroadcastKind.VECTOR, 0, g_tag.index, gelu.out),
        ]
        self._dones += [event_valid & e_tag.last, step.o_valid & s_tag.last, gelu.o_valid & g_tag.last]
        probe = self._at(d, Route.PROBE)
        self._dones.append(probe & self._tags[d].last)
        m.d.comb += [self.probe_valid.eq(probe), self.probe.eq(self.bus), self.probe_tag.eq(self._tags[d])]
        self._y_stage = y_stage
        return eventise.y_valid, eventise.y, y_tag, y_parameter

    def _decay(self, m, y_valid, y, y_tag, y_parameter):
        """Decay state and gate fusion, which reads it."""
        m.submodules.decay = decay = DecayPath(self._engine)
        d, ahead = self._drain - decay.READ_LATENCY, self._y_stage - decay.READ_LATENCY
        m.submodules.fusion = fusion = self._fusion
        dump = self._at(0, Route.STATE)
        m.d.comb += [
            decay.ahead_valid.eq(self._at(ahead, Route.DECAY)),
            decay.ahead.eq(self._tags[ahead]),
            decay.y_valid.eq(self._at(self._y_stage, Route.DECAY)),
            decay.y.eq(y),
            decay.y_tag.eq(y_tag),
            decay.parameter.eq(y_parameter),
            decay.read_valid.eq(dump | self._at(d, Route.MIX)),
            decay.read_address.eq(Mux(dump, self.op.state, self._tags[d].state)),
            decay.write_valid.eq(self.state_write.valid),
            decay.write_address.eq(self.state_write.address),
            decay.write_word.eq(self.state_write.word),
        ]
        d = self._drain
        m.d.comb += [
            fusion.entry.eq(self.entry),
            fusion.weight_valid.eq(self._at(d, Route.WEIGHT)),
            fusion.weight_tag.eq(self._tags[d]),
            fusion.weight_word.eq(self.bus),
            fusion.mix_valid.eq(self._at(d, Route.MIX)),
            fusion.mix_tag.eq(self._tags[d]),
            fusion.numerator.eq(self.bus),
            fusion.state.eq(decay.read_word),
        ]
        self._state_word = decay.read_word
        self._sources.append(
            (fusion.cast_valid, BroadcastKind.VECTOR, 0, fusion.cast_index, fusion.cast_word)
        )
        self._dones += [decay.done, fusion.done]

    def _residual(self, m, y_valid, y, y_tag, parameter):
        """Residual stream and the encoder that starts it."""
        ahead = self._y_stage - 1
        lanes = self._engine.lanes
        m.submodules.residual = residual = ResidualPath(self._engine)
        m.submodules.encoder = encoder = EncoderPath(self._engine)
        m.d.comb += [
            residual.header.eq(self.header),
            residual.entry.eq(self.entry),
            residual.head_pass.eq(self.head_pass),
            residual.ahead_valid.eq(self._at(ahead, Route.RESIDUAL)),
            residual.ahead.eq(self._tags[ahead]),
            residual.y_valid.eq(self._at(self._y_stage, Route.RESIDUAL)),
            residual.y.eq(y),
            residual.y_tag.eq(y_tag),
            residual.op_valid.eq(self.op_valid),
            residual.op.eq(self.op),
            residual.parameter.eq(Cat(parameter[i] for i in range(lanes))),
            residual.x_valid.eq(encoder.x_valid),
            residual.x.eq(encoder.x),
            residual.x_index.eq(encoder.x_index),
            residual.x_last.eq(encoder.x_last),
            residual.x_spikes_valid.eq(encoder.spikes_valid),
            residual.x_spikes.eq(encoder.spikes),
            residual.x_spikes_index.eq(encoder.spikes_index),
            encoder.header.eq(self.header),
            encoder.start.eq(self.embed_start),
            encoder.words.eq(self.entry.words),
            encoder.beat_valid.eq(self.side_valid & self.embed_active),
            encoder.beat.eq(self.side),
            encoder.read_valid.eq(self._at(1, Route.MEMBRANE)),
            encoder.read_address.eq(self._tags[1].index),
            encoder.write_valid.eq(self.membrane_write.valid),
            encoder.write_address.eq(self.membrane_write.address),
            encoder.write_word.eq(self.membrane_write.word),
            self.statistics_done.eq(residual.statistics_done),
        ]
        self._sources.append(
            (residual.cast_valid, BroadcastKind.VECTOR, 0, residual.cast_index, residual.cast_word)
        )
        self._dones.append(residual.done)
        dump = self._at(DecayPath.READ_LATENCY, Route.MEMBRANE, Route.STATE)
        m.d.sync += self.dump_valid.eq(dump)
        with m.If(dump):
            m.d.sync += self.dump_word.eq(
                Mux(
                    self._tags[DecayPath.READ_LATENCY].route == Route.STATE,
                    self._state_word.as_value(),
                    encoder.read_word.as_value(),
                )
            )

    def _broadcast(self, m):
        """The path that has a word puts it on the bus; its nonzero elements are counted a register on."""
        counted, word = Signal(), Signal.like(self.cast.word, reset_less=True)
        m.d.comb += self.cast_valid.eq(Cat(s[0] for s in self._sources).any())
        # Chosen field by field: a slice of `cast` that is constant (the address) would be a process that no
        # simulator ever starts.
        chosen = {name: Signal.like(getattr(self.cast, name)) for name in ("kind", "last", "index", "word")}
        for source_valid, *fields, elements in self._sources:
            with m.If(source_valid):
                values = [*fields, elements.as_value()]
                m.d.comb += [field.eq(value) for field, value in zip(chosen.values(), values, strict=True)]
        m.d.comb += [getattr(self.cast, name).eq(field) for name, field in chosen.items()]
        m.d.sync += [
            self.done.eq(Cat(self._dones).any()),
            counted.eq(self.cast_valid & (self.cast.kind == BroadcastKind.VECTOR)),
            word.eq(self.cast.word),
        ]
        m.submodules.count = count = PopCount(self._engine.lanes)
        m.d.comb += [
            count.i_valid.eq(counted),
            count.word.eq(word),
            self.active_valid.eq(count.o_valid),
            self.active.eq(count.count),
        ]


def _write_port(shape, address_bits: int):
    """Write port of a memory: valid, address, word; no back-pressure."""
    return wiring.Signature({"valid": Out(1), "address": Out(address_bits), "word": Out(shape)})
