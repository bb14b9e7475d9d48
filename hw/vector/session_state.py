"""State memories of a session beside the residual stream: the decay state with its update, the membrane with
its encoder.

Both are swept to zero by a reset of the session, and can be read and written a word at a time for dump and
restore.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from symlight.model.config import PRE_BITS

from ..config import Engine
from ..lib.pipeline import Pipeline
from ..types import Header, ScaleParameter
from .decay import DecayUpdate
from .lif import Lif
from .words import WordOp


def word16(engine: Engine):
    """A vector word of int16 elements."""
    return data.ArrayLayout(signed(16), engine.lanes)


class DecayPath(wiring.Component):
    """Decay state of all layers: h = h + rnd((z - h) * beta, 16) for each requantised word.

    One word a cycle, no back-pressure. A read request (`read_valid`, for gate fusion or a dump) takes
    `READ_LATENCY` cycles.

    Attributes
    ----------
    LATENCY : int
        Cycles from `y_valid` to `done`.
    READ_LATENCY : int
        Cycles from an address to its word: the memory and its output register.

    Members
    -------
    ahead_valid, ahead : In
        Tag of `y`, `READ_LATENCY` cycles before it.
    y_valid, y, y_tag, parameter : In
        Requantised word with its `ScaleParameter`s.
    read_valid, read_address : In
    read_word : Out
        Word at `read_address` `READ_LATENCY` cycles later.
    write_valid, write_address, write_word : In
        Direct write: restore, or the sweep of a reset.
    done : Out
        Pulse: the step's last word is in the memory.
    """

    READ_LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        self._update = DecayUpdate(engine.lanes)
        self.LATENCY = self._update.LATENCY + 1
        super().__init__(
            {
                "ahead_valid": In(1),
                "ahead": In(WordOp),
                "y_valid": In(1),
                "y": In(data.ArrayLayout(signed(PRE_BITS), engine.lanes)),
                "y_tag": In(WordOp),
                "parameter": In(data.ArrayLayout(ScaleParameter, engine.lanes)),
                "read_valid": In(1),
                "read_address": In(10),
                "read_word": Out(word16(engine)),
                "write_valid": In(1),
                "write_address": In(10),
                "write_word": In(word16(engine)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=word16(self._engine), depth=self._engine.state_words, init=[]
        )
        m.submodules.update = update = self._update
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            read.en.eq(self.ahead_valid | self.read_valid),
            read.addr.eq(Mux(self.ahead_valid, self.ahead.state, self.read_address)),
            update.i_valid.eq(self.y_valid),
            update.y.eq(self.y),
            update.h.eq(self.read_word),
        ]
        reading = Signal()
        m.d.sync += reading.eq(read.en)
        with m.If(reading):
            m.d.sync += self.read_word.eq(read.data)
        m.d.comb += [update.beta[i].eq(self.parameter[i].extra[:16]) for i in range(self._engine.lanes)]
        pipe = Pipeline(m, self.y_valid, update.LATENCY)
        tag = WordOp(pipe.carry(0, update.LATENCY, self.y_tag, "tag"))
        m.d.comb += [
            write.en.eq(self.write_valid | update.o_valid),
            write.addr.eq(Mux(self.write_valid, self.write_address, tag.state)),
            write.data.eq(Mux(self.write_valid, self.write_word.as_value(), update.o.as_value())),
        ]
        m.d.sync += self.done.eq(update.o_valid & tag.last)
        return m


class EncoderPath(wiring.Component):
    """Input encoder: embedding beats to words, the LIF membrane, spikes.

    Takes beats as they come from HBM, two a word, at any pace; a word leaves with its second beat.

    Attributes
    ----------
    LATENCY : int
        Cycles from a word's second beat to its spikes.

    Members
    -------
    header : In
    start : In
        Pulse before the first beat.
    beat_valid, beat : In
        `lanes` bytes: half a word of int16.
    words : In
        Words of a row.
    x_valid, x, x_index, x_last : Out
        Embedding word.
    spikes_valid, spikes, spikes_index, spikes_last : Out
        Its spikes, `LATENCY` cycles after the beat.
    read_valid, read_address, read_word : In, In, Out
        Dump, one cycle.
    write_valid, write_address, write_word : In
        Restore, or the sweep of a reset.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self._lif = Lif(engine.lanes)
        self.LATENCY = 1 + self._lif.LATENCY
        lanes = engine.lanes
        super().__init__(
            {
                "header": In(Header),
                "start": In(1),
                "beat_valid": In(1),
                "beat": In(8 * lanes),
                "words": In(8),
                "x_valid": Out(1),
                "x": Out(word16(engine)),
                "x_index": Out(8),
                "x_last": Out(1),
                "spikes_valid": Out(1),
                "spikes": Out(lanes),
                "spikes_index": Out(8),
                "spikes_last": Out(1),
                "read_valid": In(1),
                "read_address": In(10),
                "read_word": Out(word16(engine)),
                "write_valid": In(1),
                "write_address": In(10),
                "write_word": In(word16(engine)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self._engine.lanes
        m.submodules.memory = memory = Memory(
            shape=word16(self._engine), depth=self._engine.width_words, init=[]
        )
        m.submodules.lif = lif = self._lif
        read, write = memory.read_port(), memory.write_port()
        second = self._assemble(m, lanes)
        # The membrane word is read with the second beat, so it is there when the assembled word is.
        next_index = self._next_index
        m.d.comb += [
            read.en.eq(second | self.read_valid),
            read.addr.eq(Mux(self.read_valid, self.read_address, next_index)),
            self.read_word.eq(read.data),
            lif.i_valid.eq(self.x_valid),
            lif.x.eq(self.x),
            lif.v.eq(read.data),
            lif.leak.eq(self.header.lif_leak),
            lif.threshold.eq(self.header.lif_threshold),
            lif.clamp.eq(self.header.lif_clamp),
        ]
        pipe = Pipeline(m, self.x_valid, lif.LATENCY)
        m.d.comb += [
            self.spikes_index.eq(pipe.carry(0, lif.LATENCY, self.x_index, "index")),
            self.spikes_last.eq(pipe.carry(0, lif.LATENCY, self.x_last, "last")),
            self.spikes_valid.eq(lif.o_valid),
            self.spikes.eq(lif.s),
            write.en.eq(self.write_valid | lif.o_valid),
            write.addr.eq(Mux(self.write_valid, self.write_address, self.spikes_index)),
            write.data.eq(Mux(self.write_valid, self.write_word.as_value(), lif.o.as_value())),
        ]
        return m

    def _assemble(self, m, lanes):
        """Two beats to a word; returns the strobe of a word's second beat."""
        half = Signal(8 * lanes)
        odd = Signal()
        self._next_index = next_index = Signal(8)
        second = Signal()
        m.d.comb += second.eq(self.beat_valid & odd)
        m.d.sync += self.x_valid.eq(second)
        with m.If(self.start):
            m.d.sync += [odd.eq(0), next_index.eq(0)]
        with m.Elif(self.beat_valid):
            m.d.sync += odd.eq(~odd)
            with m.If(odd):
                m.d.sync += [
                    self.x.eq(Cat(half, self.beat)),
                    self.x_index.eq(next_index),
                    self.x_last.eq(next_index == self.words - 1),
                    next_index.eq(next_index + 1),
                ]
            with m.Else():
                m.d.sync += half.eq(self.beat)
        return second
