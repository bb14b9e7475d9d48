"""What is asked of a memory and not answered yet."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class InFlight(wiring.Component):
    """What is asked of a memory and not answered yet, in order.

    A queue of which `pop` reaches the read pointer alone, so that little logic lies behind the memory's
    answer; whether there is room follows from the pointers a cycle later. Holds `depth` - 1 words.

    Parameters
    ----------
    shape : ShapeLike
    depth : int
        A power of two.

    Members
    -------
    i : In(stream of shape)
        `i.ready` is a register.
    pop : In
        The oldest is answered. Only while not `empty`.
    oldest, empty : Out
    """

    def __init__(self, shape, *, depth: int):
        self._shape, self._depth = shape, depth
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "pop": In(1),
                "oldest": Out(shape),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._shape, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        put, used = Signal(), Signal.like(write.addr)
        m.d.comb += [
            put.eq(self.i.valid & self.i.ready),
            write.en.eq(put),
            write.data.eq(self.i.p),
            self.oldest.eq(read.data),
            used.eq(write.addr - read.addr),
            self.empty.eq(write.addr == read.addr),
        ]
        m.d.sync += self.i.ready.eq(used < self._depth - 2)  # another one may come in this cycle
        with m.If(put):
            m.d.sync += write.addr.eq(write.addr + 1)
        with m.If(self.pop):
            m.d.sync += read.addr.eq(read.addr + 1)
        return m
