"""The place of a channel where a matrix is cut into columns."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..types import CHANNEL_BITS, COLUMN_BITS


class GroupColumnTable(wiring.Component):
    """Group and column of this channel when a matrix is cut into `columns` columns, 1..32, for two parts.

    A table of 32 x 32 constants with two ports: half a block RAM. Latency 1 cycle.

    Members
    -------
    index : In
    ask : array of {columns, group, column}
        index // columns, index % columns.
    """

    def __init__(self):
        place = wiring.Signature(
            {"columns": Out(COLUMN_BITS), "group": In(CHANNEL_BITS), "column": In(COLUMN_BITS)}
        )
        super().__init__({"index": In(CHANNEL_BITS), "ask": In(place).array(2)})

    def elaborate(self, platform):
        m = Module()
        most = 1 << CHANNEL_BITS
        cuts = [most, *range(1, most)]  # without the top bit, 32 columns are 0
        values = [(k // columns) | (k % columns) << CHANNEL_BITS for columns in cuts for k in range(most)]
        m.submodules.table = table = Memory(
            shape=2 * CHANNEL_BITS, depth=len(values), init=values, attrs={"rom_style": "block"}
        )
        for ask in self.ask:
            read = table.read_port()
            m.d.comb += [
                read.addr.eq(Cat(self.index, ask.columns[:CHANNEL_BITS])),
                Cat(ask.group, ask.column[:CHANNEL_BITS]).eq(read.data),
            ]
        return m
