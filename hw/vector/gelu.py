"""The GELU of the prior net, as a table of 256 int8 that belongs to the package."""

from amaranth.hdl import Array, C, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from symlight.model.ops import REQUANTISED_BITS

from ..lib.pipeline import Pipeline, saturate

ENTRIES = 256


class Gelu(wiring.Component):
    """out = table[sat(y, 8) + 128] for each lane (`model.ops.gelu_index`, `model.ops.gelu`).

    Every lane reads a copy of its own. A table is written in words of `lanes` entries, in order, at any rate;
    behind the last word it is copied to the lanes, an entry a cycle (`busy` for 256 + 3 cycles).

    Latency `LATENCY` cycles, a word a cycle, no back-pressure.

    Parameters
    ----------
    lanes : int
        Elements of a word.

    Members
    -------
    i_valid, y : In
        A requantised word.
    o_valid, out : Out
        Table entries.
    w_valid, w_word, w_values : In
        Entries w_word * lanes .. of the table; not while `busy`.
    busy : Out
        The table is being copied: nothing may be looked up.
    """

    LATENCY = 3

    def __init__(self, lanes: int):
        self._lanes = lanes
        word = data.ArrayLayout(signed(8), lanes)
        super().__init__(
            {
                "i_valid": In(1),
                "y": In(data.ArrayLayout(signed(REQUANTISED_BITS), lanes)),
                "o_valid": Out(1),
                "out": Out(word),
                "w_valid": In(1),
                "w_word": In(exact_log2(ENTRIES // lanes)),
                "w_values": In(word),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        pipe = Pipeline(m, self.i_valid, self.LATENCY)
        m.submodules.unpack = unpack = _Unpack(self._lanes)
        m.d.comb += [
            unpack.w_valid.eq(self.w_valid),
            unpack.w_word.eq(self.w_word),
            unpack.w_values.eq(self.w_values),
            self.busy.eq(unpack.busy),
            self.o_valid.eq(pipe.valid[-1]),
        ]
        for lane in range(self._lanes):
            m.submodules[f"table{lane}"] = table = Memory(
                shape=signed(8), depth=ENTRIES, init=[], attrs={"ram_style": "block"}
            )
            write = table.write_port()
            read = table.read_port()
            m.d.comb += [
                write.en.eq(unpack.o_valid),
                write.addr.eq(unpack.index),
                write.data.eq(unpack.value),
                read.en.eq(pipe.valid[1]),
                read.addr.eq(pipe.reg(1, saturate(self.y[lane], 8) ^ C(-128, 8), f"index{lane}")),
                self.out[lane].eq(pipe.reg(3, read.data, f"value{lane}")),
            ]
        return m


class _Unpack(wiring.Component):
    """Holds a table in words and, behind its last word, puts it out entry by entry."""

    def __init__(self, lanes: int):
        self._lanes = lanes
        self._words = ENTRIES // lanes
        super().__init__(
            {
                "w_valid": In(1),
                "w_word": In(exact_log2(self._words)),
                "w_values": In(data.ArrayLayout(signed(8), lanes)),
                "busy": Out(1),
                "o_valid": Out(1),
                "index": Out(8),
                "value": Out(signed(8)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        walking = Signal()
        entry = Signal(8)
        with m.If(walking):
            m.d.sync += entry.eq(entry + 1)
            with m.If(entry == ENTRIES - 1):
                m.d.sync += walking.eq(0)
        with m.If(self.w_valid & (self.w_word == self._words - 1)):
            m.d.sync += [walking.eq(1), entry.eq(0)]

        pipe = Pipeline(m, walking, 2)
        lane_bits = exact_log2(self._lanes)
        columns = []
        for lane in range(self._lanes):
            m.submodules[f"column{lane}"] = column = Memory(shape=signed(8), depth=self._words, init=[])
            write = column.write_port()
            read = column.read_port()
            m.d.comb += [
                write.en.eq(self.w_valid),
                write.addr.eq(self.w_word),
                write.data.eq(self.w_values[lane]),
                read.en.eq(walking),
                read.addr.eq(entry[lane_bits:]),
            ]
            columns.append(read.data)
        lane = pipe.reg(1, entry[:lane_bits], "lane")
        m.d.comb += [
            self.value.eq(pipe.reg(2, Array(columns)[lane], "value")),
            self.index.eq(pipe.carry(0, 2, entry, "index")),
            self.o_valid.eq(pipe.valid[-1]),
            self.busy.eq(walking | pipe.valid[1] | pipe.valid[2]),
        ]
        return m
