"""The operation table on chip: written by LOAD, read by the dispatcher and by the task runner."""

from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Engine
from ..types import OpEntry


class OperationTable(wiring.Component):
    """Memory of `OpEntry`s with two independent readers.

    Attributes
    ----------
    LATENCY : int
        Cycles from an index to its entry, two registers.

    Members
    -------
    write_valid, write_index, write_entry : In
    index_a, index_b : In
    entry_a, entry_b : Out
        Entry of `index_*` as it was `LATENCY` cycles ago.
    """

    LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "write_valid": In(1),
                "write_index": In(10),
                "write_entry": In(OpEntry),
                "index_a": In(10),
                "entry_a": Out(OpEntry),
                "index_b": In(10),
                "entry_b": Out(OpEntry),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=OpEntry, depth=self._engine.table_entries, init=[])
        write = memory.write_port()
        m.d.comb += [
            write.en.eq(self.write_valid),
            write.addr.eq(self.write_index),
            write.data.eq(self.write_entry),
        ]
        for index, entry in ((self.index_a, self.entry_a), (self.index_b, self.entry_b)):
            read = memory.read_port()
            m.d.comb += read.addr.eq(index)
            m.d.sync += entry.eq(read.data)
        return m


class Barrier(wiring.Component):
    """Counts pulses of every channel; all have arrived when no count is zero.

    The pulses, which may come from another die, pass a register first; `ready` looks at it beside the counts.

    Attributes
    ----------
    LATENCY : int
        Cycles from the last pulse to `ready`.
    LEAD : int
        Pulses of a channel that can wait.

    Members
    -------
    pulses : In
        One bit a channel.
    ready : Out
        Every channel has at least one pulse that was not consumed.
    consume : In
        Take one pulse of every channel; `ready` may be looked at again three cycles later.
    """

    LEAD = 7
    LATENCY = 2

    def __init__(self, channels: int):
        self._channels = channels
        super().__init__({"pulses": In(channels), "ready": Out(1), "consume": In(1)})

    def elaborate(self, platform):
        m = Module()
        arrived, pulses = Signal(self._channels), Signal(self._channels)
        m.d.sync += pulses.eq(self.pulses)
        for k in range(self._channels):
            count = Signal(range(self.LEAD + 1), name=f"count{k}")
            with m.If(pulses[k] & ~self.consume):
                m.d.sync += count.eq(count + 1)
                m.d.sync += Assert(count != self.LEAD, f"more than {self.LEAD} operations of a channel wait")
            with m.Elif(self.consume & ~pulses[k]):
                m.d.sync += count.eq(count - 1)
                m.d.sync += Assert(count != 0, "an operation is taken that a channel has not done")
            m.d.comb += arrived[k].eq((count != 0) | pulses[k])
        m.d.sync += self.ready.eq(arrived.all())
        return m
