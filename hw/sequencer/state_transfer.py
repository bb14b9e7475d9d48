"""Session state in the vector unit's memories: the sweep of a reset, dump to and restore from the io
buffer."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..interface import Io, Traffic
from ..mailbox import io_write_layout
from ..types import ChannelCommand, Header, Work
from ..vector.session_state import word16
from ..vector.words import Route, WordOp

CHUNK = 256  # words of one DIRECT_READ command


class StateAction(enum.Enum, shape=2):
    """What a start does."""

    SWEEP = 0  # zero everything
    DUMP = 1  # membrane words, then decay state words, to the io buffer
    RESTORE = 2  # and back


class StateUnit(wiring.Component):
    """Sweeps, dumps and restores membrane and decay state.

    A word is `lanes` int16, two beats. Dump: a word every few cycles as the writer takes beats; restore: a
    beat a cycle.

    Members
    -------
    header, start, action : In
    done : Out
        Pulse. A dump's last beats may still be in the writer.
    op_valid, op : Out
        MEMBRANE and STATE reads of the vector unit.
    word_valid, word : In
        Their words.
    write : Out, stream of io_write_layout
    side : Out, stream of ChannelCommand
    beat_valid, beat : In
        Side beats; only this unit's are on the way while it restores.
    membrane_valid, state_valid, address, value : Out
        Writes to the vector unit's memories.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "header": In(Header),
                "start": In(1),
                "action": In(StateAction),
                "done": Out(1),
                "op_valid": Out(1),
                "op": Out(WordOp),
                "word_valid": In(1),
                "word": In(word16(engine)),
                "write": Out(stream.Signature(io_write_layout(engine))),
                "side": Out(stream.Signature(ChannelCommand)),
                "beat_valid": In(1),
                "beat": In(8 * engine.lanes),
                "membrane_valid": Out(1),
                "state_valid": Out(1),
                "address": Out(10),
                "value": Out(word16(engine)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        self._index = index = Signal(10)  # word within its memory
        self._decay = decay = Signal()  # the decay state, not the membrane
        self._slot = Signal.like(self.write.p.address)  # beat within the io buffer's state region
        self._words, self._final = Signal(10), Signal(10)  # words of the memory, its last; a cycle late
        m.d.sync += [self.done.eq(0), self.membrane_valid.eq(0), self.state_valid.eq(0), self.op_valid.eq(0)]
        words = Mux(decay, self.header.state_words, self.header.width_words)
        m.d.sync += [self._words.eq(words), self._final.eq(words - 1)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [index.eq(0), decay.eq(0), self._slot.eq(Io.STATE // engine.beat_bytes)]
                with m.If(self.start):
                    with m.Switch(self.action):
                        with m.Case(StateAction.SWEEP):
                            m.next = "SWEEP"
                        with m.Case(StateAction.DUMP):
                            m.next = "READ"
                        with m.Case(StateAction.RESTORE):
                            m.next = "REGION"
            with m.State("SWEEP"):
                m.d.sync += [
                    self.membrane_valid.eq(index < engine.width_words),
                    self.state_valid.eq(1),
                    self.address.eq(index),
                    self.value.eq(0),
                    index.eq(index + 1),
                ]
                with m.If(index == engine.state_words - 1):
                    m.next = "DONE"
            self._dump(m)
            self._restore(m)
            with m.State("DONE"):
                m.d.sync += self.done.eq(1)
                m.next = "IDLE"
        return m

    def _step(self, m, following: str):
        """On to the next word, the next memory, or the end."""
        m.d.sync += self._index.eq(self._index + 1)
        with m.If(self._index == self._final):
            m.d.sync += [self._index.eq(0), self._decay.eq(1)]
            if following:
                m.next = following
            with m.If(self._decay):
                m.next = "DONE"
        if following:
            with m.Else():
                m.next = following

    def _dump(self, m):
        bits = 8 * self._engine.lanes
        value = Signal(2 * bits)
        with m.State("READ"):
            m.d.sync += [
                self.op_valid.eq(1),
                self.op.index.eq(self._index),
                self.op.state.eq(self._index),
                self.op.route.eq(Mux(self._decay, Route.STATE, Route.MEMBRANE)),
            ]
            m.next = "WORD"
        with m.State("WORD"):
            with m.If(self.word_valid):
                m.d.sync += value.eq(self.word)
                m.next = "LOW"
        for name, part, following in (("LOW", value[:bits], "HIGH"), ("HIGH", value[bits:], "READ")):
            with m.State(name):
                m.d.comb += [
                    self.write.valid.eq(1),
                    self.write.p.address.eq(self._slot),
                    self.write.p.word.eq(part),
                ]
                with m.If(self.write.ready):
                    m.d.sync += self._slot.eq(self._slot + 1)
                    if name == "LOW":
                        m.next = following
                    else:
                        self._step(m, following)

    def _restore(self, m):
        """One memory's words chunk by chunk; each chunk must arrive before the next is asked for."""
        bits = 8 * self._engine.lanes
        low, odd = Signal(bits), Signal()
        arriving = Signal(range(CHUNK + 1))
        left = Signal(10)
        chunk = Signal.like(arriving)
        m.d.comb += [
            left.eq(self._words - self._index),
            self.side.p.work.eq(Work.DIRECT_READ),
            self.side.p.io.eq(1),
            self.side.p.base.eq(self._slot),
            self.side.p.count.eq(chunk << 1),
            self.side.p.traffic.eq(Traffic.IO),
        ]
        with m.State("REGION"):  # the words follow the memory
            m.next = "CHUNK"
        with m.State("CHUNK"):
            m.d.sync += chunk.eq(Mux(left > CHUNK, CHUNK, left))
            m.next = "REQUEST"
        with m.State("REQUEST"):
            m.d.comb += self.side.valid.eq(1)
            m.d.sync += odd.eq(0)
            with m.If(self.side.ready):
                m.d.sync += [
                    arriving.eq(chunk),
                    self._slot.eq(self._slot + self.side.p.count),
                ]
                m.next = "ARRIVE"
        with m.State("ARRIVE"):
            with m.If(self.beat_valid):
                m.d.sync += odd.eq(~odd)
                with m.If(~odd):
                    m.d.sync += low.eq(self.beat)
                with m.Else():
                    m.d.sync += [
                        self.value.eq(Cat(low, self.beat)),
                        self.address.eq(self._index),
                        self.membrane_valid.eq(~self._decay),
                        self.state_valid.eq(self._decay),
                        arriving.eq(arriving - 1),
                    ]
                    self._step(m, "")
                    with m.If((arriving == 1) & ~(self._decay & (self._index == self._final))):
                        m.next = "REGION"
