"""LOAD: header, operation table, parameters, GELU table and slopes from channel 0's image into the kernel."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..interface import MAILBOX_MAGIC, Traffic
from ..types import (
    BEAT_ADDRESS,
    ENTRY_BYTES,
    PARAMETER_BITS,
    BroadcastKind,
    ChannelCommand,
    Header,
    OpEntry,
    Work,
    broadcast_layout,
)

CHUNK = 1024  # beats of one DIRECT_READ command
GELU_INDEX = 5  # of a word of the GELU table


class LoadUnit(wiring.Component):
    """Reads the five sections one after the other with DIRECT_READ commands, and routes their beats.

    Throughput: a beat a cycle. No back-pressure on the side beats.

    Members
    -------
    start : In
        Pulse.
    done, failed : Out
        Pulse at the end; with `failed` if the image has no header.
    side : Out, stream of ChannelCommand
    beat_valid, beat : In
        Side beats; only this unit's are on the way while it runs.
    header : Out
        Quasi-static; survives a soft reset.
    table_valid, table_index, table_entry : Out
    parameter_valid, parameter_index, parameter_word : Out
    gelu_valid, gelu_index, gelu_word : Out, gelu_busy : In
    cast_valid, cast : Out
        SLOPE words.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        lanes = engine.lanes
        super().__init__(
            {
                "start": In(1),
                "done": Out(1),
                "failed": Out(1),
                "side": Out(stream.Signature(ChannelCommand)),
                "beat_valid": In(1),
                "beat": In(8 * lanes),
                "header": Out(Header),
                "table_valid": Out(1),
                "table_index": Out(10),
                "table_entry": Out(OpEntry),
                "parameter_valid": Out(1),
                "parameter_index": Out(13),
                "parameter_word": Out(data.ArrayLayout(PARAMETER_BITS, lanes)),
                "gelu_valid": Out(1),
                "gelu_index": Out(GELU_INDEX),
                "gelu_word": Out(data.ArrayLayout(signed(8), lanes)),
                "gelu_busy": In(1),
                "cast_valid": Out(1),
                "cast": Out(broadcast_layout(engine)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._arriving = arriving = Signal(16)  # beats of the section still to come
        requested = Signal(16)  # beats of the section still to ask for
        base = Signal(BEAT_ADDRESS)
        section = Signal(3)
        gelu = section == 3
        chunk = Signal(range(CHUNK + 1))
        pause, hold = Signal(3), Signal()
        m.d.comb += [
            self.side.p.work.eq(Work.DIRECT_READ),
            self.side.p.base.eq(base),
            self.side.p.count.eq(chunk),
            self.side.p.traffic.eq(Traffic.IO),
        ]
        # Lengths of sections, in registers: the header is complete two cycles before the first is due.
        self._table_beats, self._parameter_beats = Signal(16), Signal(16)
        m.d.sync += [
            self._table_beats.eq(self.header.table_entries * (ENTRY_BYTES // self._engine.beat_bytes)),
            self._parameter_beats.eq(self.header.parameter_words * (PARAMETER_BITS // 8)),
        ]
        m.d.sync += [
            self.done.eq(0),
            pause.eq(Mux(pause == 0, 0, pause - 1)),
            hold.eq(gelu & ((pause != 0) | self.gelu_busy)),
        ]
        with m.If(self.beat_valid & (arriving != 0)):
            m.d.sync += arriving.eq(arriving - 1)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [section.eq(0), self.failed.eq(0)]
                    m.next = "SECTION"
            with m.State("SECTION"):
                self._section(m, section, base, requested)
                m.next = "CHUNK"
            with m.State("CHUNK"):  # the GELU table takes its words one by one
                m.d.sync += chunk.eq(
                    Mux(gelu, requested != 0, Mux(requested > CHUNK, CHUNK, requested[: len(chunk)]))
                )
                m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += self.side.valid.eq((requested != 0) & ~hold)
                with m.If(requested == 0):
                    m.next = "ARRIVE"
                with m.Elif(self.side.valid & self.side.ready):
                    m.d.sync += [requested.eq(requested - chunk), base.eq(base + chunk)]
                    m.next = "ARRIVE"
            # One chunk at a time: the read FIFO of channel 0 serves other commands too.
            with m.State("ARRIVE"):
                m.d.sync += pause.eq(7)
                with m.If(arriving == requested):
                    with m.If(requested != 0):
                        m.next = "CHUNK"
                    with m.Else():
                        m.next = "LATCH"
            with m.State("LATCH"):  # the last word passes its register
                m.d.sync += section.eq(section + 1)
                with m.If((section == 0) & (self.header.magic != MAILBOX_MAGIC)):
                    m.d.sync += self.failed.eq(1)
                    m.next = "DONE"
                with m.Elif(section == 4):
                    m.next = "DONE"
                with m.Else():
                    m.next = "SECTION"
            with m.State("DONE"):
                m.d.sync += self.done.eq(1)
                m.next = "IDLE"
        self._route(m, section)
        return m

    def _section(self, m, section, base, requested):
        """Where the next section lies, and how many beats it has."""
        beat = self._engine.beat_bytes
        h = self.header
        entry_beats = ENTRY_BYTES // beat
        sections = [
            (0, entry_beats),
            (h.table_base, self._table_beats),
            (h.parameter_base, self._parameter_beats),
            (h.gelu_base, 256 // beat),
            (h.slope_base, h.slope_beats),
        ]
        with m.Switch(section):
            for number, (first, beats) in enumerate(sections):
                with m.Case(number):
                    m.d.sync += [base.eq(first), requested.eq(beats), self._arriving.eq(beats)]

    def _route(self, m, section):
        """Beats gather in a shift register until a word of the section is complete."""
        lanes = self._engine.lanes
        bits = 8 * lanes
        entry_beats, parameter_beats = ENTRY_BYTES // lanes, PARAMETER_BITS // 8
        beats = max(entry_beats, parameter_beats)
        window = Signal(bits * beats)  # the newest beat on top
        count = Signal(range(beats))
        index = Signal(13)
        complete = Signal()
        needed = Signal(range(beats + 1))
        with m.Switch(section):
            with m.Case(0, 1):
                m.d.comb += needed.eq(entry_beats)
            with m.Case(2):
                m.d.comb += needed.eq(parameter_beats)
            with m.Default():
                m.d.comb += needed.eq(1)
        beat_valid = self.beat_valid & (self._arriving != 0)
        m.d.sync += complete.eq(beat_valid & (count == needed - 1))
        with m.If(beat_valid):
            m.d.sync += [
                window.eq(Cat(window[bits:], self.beat)),
                count.eq(Mux(count == needed - 1, 0, count + 1)),
            ]
        with m.If(complete):
            m.d.sync += index.eq(index + 1)
        with m.If(self._arriving == 0):
            m.d.sync += index.eq(Mux(complete, index, 0))
        newest = window[-bits:]
        entry = window[-bits * entry_beats :]
        m.d.comb += [
            self.table_valid.eq(complete & (section == 1)),
            self.table_index.eq(index),
            self.table_entry.eq(entry[: len(self.table_entry.as_value())]),
            self.parameter_valid.eq(complete & (section == 2)),
            self.parameter_index.eq(index),
            self.parameter_word.eq(window[-bits * parameter_beats :]),
            self.gelu_valid.eq(complete & (section == 3)),
            self.gelu_index.eq(index),
            self.gelu_word.eq(newest),
            self.cast_valid.eq(complete & (section == 4)),
            self.cast.kind.eq(BroadcastKind.SLOPE),
            self.cast.index.eq(index),
            self.cast.word.eq(newest),
        ]
        header = Signal(Header, reset_less=True)
        m.d.comb += self.header.eq(header)
        with m.If(complete & (section == 0)):
            m.d.sync += header.eq(entry[: len(header.as_value())])
