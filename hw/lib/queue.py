"""Queues of streams, in distributed or in block RAM."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

SHALLOW = 64  # up to this depth a queue lies in distributed RAM


def _counted(level, put, get):
    """The next level. Both sums are there when it is known, late in the cycle, which one counts."""
    return Mux(get, Mux(put, level, level - 1), Mux(put, level + 1, level))


class Queue(wiring.Component):
    """First-in first-out stream queue, first word falls through.

    A shallow queue lies in distributed RAM, a deep one in block RAM whose output register is the queue's
    output.
    Throughput: one word a cycle in and out at once, also when full or empty. `i.ready` and `o.valid` come
    from registers.

    Parameters
    ----------
    shape : ShapeLike
        Payload.
    depth : int
        Words it holds; a power of two.
    deep : bool
        Use block RAM; the default is by depth.
    credit_based : bool
        The sender counts the room itself: `i.ready` is always high, and the counters see a word a cycle after
        it came. Behind `i.valid` there is then the enable of the memory alone, as a port of the kernel needs
        it.

    Attributes
    ----------
    LATENCY : int
        Cycles from a word's transfer at `i` until it is valid at `o` of an empty queue: 1 shallow, 2 deep.

    Members
    -------
    i, o : stream.Signature(shape)
    level : Out
        Words inside, 0 .. depth; `credit_based`: without the word of the cycle before.
    """

    def __init__(self, shape, *, depth: int, deep: bool | None = None, credit_based: bool = False):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"queue depth {depth} is not a power of two of at least 2")
        self._shape, self._depth, self._credit_based = shape, depth, credit_based
        self._deep = depth > SHALLOW if deep is None else deep
        self.LATENCY = 2 if self._deep else 1
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(
            shape=self._shape,
            depth=self._depth,
            init=[],
            attrs={"ram_style": "block" if self._deep else "distributed"},
        )
        write = memory.write_port()
        put, get = Signal(), Signal()
        counted = put
        m.d.comb += [
            self.i.ready.eq(~self.level[-1]),  # depth is a power of two: full is one bit
            put.eq(self.i.valid & self.i.ready),
            get.eq(self.o.valid & self.o.ready),
            write.data.eq(self.i.payload),
            write.en.eq(put),
        ]
        if self._credit_based:
            counted = fresh = Signal()
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += fresh.eq(put)
            with m.If(put):
                m.d.sync += Assert(self.level + fresh < self._depth, "a word that was promised room has none")
        with m.If(put):
            m.d.sync += write.addr.eq(write.addr + 1)
        m.d.sync += self.level.eq(_counted(self.level, counted, get))
        if self._deep:
            self._read_deep(m, memory.read_port(transparent_for=()), counted, get)
        else:
            self._read_shallow(m, memory.read_port(domain="comb"), counted, get)
        return m

    def _read_shallow(self, m, read, counted, get):
        m.d.comb += [
            self.o.payload.eq(read.data),
            self.o.valid.eq((self.level != 0) | (counted if self._credit_based else 0)),
        ]
        with m.If(get):
            m.d.sync += read.addr.eq(read.addr + 1)

    def _read_deep(self, m, read, counted, get):
        """The memory's output register holds the oldest word; it is refilled in the cycle it is taken."""
        address = Signal(range(self._depth))
        stored = Signal(range(self._depth + 1))  # words in the memory, without the output register
        some = Signal()  # stored is not 0
        there = some | (counted if self._credit_based else 0)
        m.d.comb += [
            read.addr.eq(address),
            read.en.eq(there & (~self.o.valid | self.o.ready)),
            self.o.payload.eq(read.data),
        ]
        with m.If(read.en):
            m.d.sync += [address.eq(address + 1), self.o.valid.eq(1)]
        with m.Elif(get):
            m.d.sync += self.o.valid.eq(0)
        m.d.sync += stored.eq(_counted(stored, counted, read.en))
        with m.If(counted & ~read.en):
            m.d.sync += some.eq(1)
        with m.If(read.en & ~counted):
            m.d.sync += some.eq(stored != 1)
