"""The 64-bit counters of the mailbox, in one memory."""

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .interface import COUNTERS
from .lib.queue import Queue

ADD = data.StructLayout({"index": range(COUNTERS), "amount": 48})
QUEUE = 16  # adds that wait for the memory


class Counters(wiring.Component):
    """`interface.COUNTERS` counters of 64 bits; amounts are added one by one.

    Throughput: one add each `INTERVAL` cycles (read, the memory's output register, add and write back),
    exact for any order of indices.
    Back-pressure: a queue of 16 in front takes bursts; `add.ready` is low while it is full, and in the cycle
    of `clear`.

    Attributes
    ----------
    INTERVAL : int
        Cycles an add takes.
    CLEAR_CYCLES : int
        Cycles of `busy` after a `clear`.
    READ_LATENCY : int
        Cycles from `index` to `value`.

    Members
    -------
    add : In(stream.Signature(ADD))
        Add `amount` to counter `index`.
    clear : In
        Pulse: all counters become 0; adds before it are lost, adds after it count (they queue up meanwhile).
    busy : Out
        The counters are being cleared.
    idle : Out
        Every add so far is in the counters, and they are not being cleared.
    index : In
        Counter to read, once `idle`.
    value : Out
        Its value.
    """

    INTERVAL = 3
    CLEAR_CYCLES = COUNTERS
    READ_LATENCY = 2

    add: In(stream.Signature(ADD))
    clear: In(1)
    busy: Out(1)
    idle: Out(1)
    index: In(range(COUNTERS))
    value: Out(64)

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = ResetInserter(self.clear)(Queue(ADD, depth=QUEUE))
        m.submodules.memory = memory = Memory(shape=64, depth=COUNTERS, init=[])
        read = memory.read_port(transparent_for=())
        write = memory.write_port()
        # The counter of the oldest add is at the read port's output; it is in the register behind that.
        reading, adding = Signal(), Signal()
        sweep = Signal(range(COUNTERS))
        head = queue.o.p
        m.d.comb += [
            queue.i.p.eq(self.add.p),
            queue.i.valid.eq(self.add.valid & ~self.clear),
            self.add.ready.eq(queue.i.ready & ~self.clear),
            self.idle.eq(~queue.o.valid & ~self.busy),  # an add leaves the queue when it is written
            read.addr.eq(self.index),
            write.addr.eq(head.index),
            write.data.eq(self.value + head.amount),
            queue.o.ready.eq(adding),
            write.en.eq(adding | self.busy),
        ]
        with m.If(queue.o.valid):
            m.d.comb += read.addr.eq(head.index)
        m.d.sync += self.value.eq(read.data)
        with m.If(self.busy):
            m.d.comb += [write.addr.eq(sweep), write.data.eq(0)]
            m.d.sync += [sweep.eq(sweep + 1), self.busy.eq(sweep != COUNTERS - 1)]
        free = ~self.busy & ~self.clear
        m.d.sync += [reading.eq(queue.o.valid & ~reading & ~adding & free), adding.eq(reading & free)]
        with m.If(self.clear):
            m.d.sync += [self.busy.eq(1), sweep.eq(0)]
        return m
