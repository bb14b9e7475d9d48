"""KV staging memory of a channel: a half for keys, a half for values."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...config import Engine
from ...types import beat_layout


class Staging(wiring.Component):
    """A half, `engine.stage_beats` beats in UltraRAM: one write and one read a cycle.

    A read that meets a write of the same address returns the old beat.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from `read.en` to `read.data` (array and output register), which then holds until the next
        read's data.

    Members
    -------
    write : {en, address, data}
    read : {en, address} and, two cycles later, data
    """

    LATENCY = 2

    def __init__(self, *, engine: Engine):
        self._engine = engine
        beat = beat_layout(engine)
        address = range(engine.stage_beats)
        super().__init__(
            {
                "write": In(wiring.Signature({"en": Out(1), "address": Out(address), "data": Out(beat)})),
                "read": In(wiring.Signature({"en": Out(1), "address": Out(address), "data": In(beat)})),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.memory = memory = Memory(
            shape=8 * engine.lanes,
            depth=engine.stage_beats,
            init=[],
            attrs={"ram_style": "ultra"},
        )
        write, read = memory.write_port(), memory.read_port()
        arrived = Signal()
        output = Signal(8 * engine.lanes, reset_less=True)
        m.d.comb += [
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            write.en.eq(self.write.en),
            read.addr.eq(self.read.address),
            read.en.eq(self.read.en),
            self.read.data.as_value().eq(output),
        ]
        m.d.sync += arrived.eq(self.read.en)
        with m.If(arrived):
            m.d.sync += output.eq(read.data)
        return m
