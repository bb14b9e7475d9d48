"""hw.lib.queue.Queue: the stream rules, and first in, first out."""

from amaranth.hdl import Assert, Cover, Module, Mux, Signal

from symlight.hw.lib.queue import Queue

from .opened import Opened, drive_freely
from .proof import AnySeq, Proof, before, holds

BITS = 8  # of the payload; nothing depends on it


def pointers(dut: Opened):
    """(write pointer, read pointer, words in the memory, output register in use) of an opened queue."""
    memory = dut.memory()
    write, read = memory.write_ports[0].addr, memory.read_ports[0].addr
    if dut.component._deep:
        return write, read, dut.signal("stored"), dut.component.o.valid
    return write, read, dut.component.level, 0


def queue_invariant(dut: Opened):
    """What holds between the counters of an opened queue in every cycle."""
    write, read, stored, register = pointers(dut)
    depth = dut.component._depth
    uncounted = dut.signal("fresh") if dut.component._credit_based else 0
    agree = (
        (dut.component.level <= depth)
        & (dut.component.level == stored + register)
        & ((write - read)[: len(write)] == (stored + uncounted)[: len(write)])
    )
    return agree & (dut.signal("some") == (stored != 0)) if dut.component._deep else agree


def queue_word(dut: Opened, place):
    """Word number `place` of an opened queue, 0 is the oldest; meaningful for place < level."""
    _write, read, _stored, register = pointers(dut)
    row = dut.row((read + place - register)[: len(read)])
    if isinstance(register, int):
        return row
    output = dut.memory().read_ports[0].data
    return Mux(register & (place == 0), output, row)


class _QueueProof(Proof):
    """A word is marked when it enters, at any time; it must leave unchanged, behind the words before it."""

    depth: int
    deep: bool
    induction = 3

    def component(self):
        return Queue(BITS, depth=self.depth, deep=self.deep)

    def claim(self, m: Module, dut: Opened):
        queue = dut.component
        drive_freely(m, queue)
        put, get = Signal(), Signal()
        m.d.comb += [put.eq(queue.i.valid & queue.i.ready), get.eq(queue.o.valid & queue.o.ready)]
        holds(m, queue.o.valid, queue.o.ready, queue.o.p, "output holds until ready")
        self.invariant(m, queue_invariant(dut), "counters agree")

        inside, most = Signal(range(self.depth + 1)), Signal(range(self.depth + 1))
        m.d.sync += inside.eq(inside + put - get)
        with m.If(inside > most):
            m.d.sync += most.eq(inside)
        m.d.comb += [
            Assert(inside == queue.level, "level is what came in less what went out"),
            Assert(~queue.i.ready | (inside < self.depth), "ready means room"),
            Assert(queue.i.ready | (inside == self.depth), "room means ready"),
            Assert(~queue.o.valid | (inside != 0), "nothing comes out of an empty queue"),
        ]

        marked, ahead, word = Signal(), Signal(range(self.depth + 1)), Signal(BITS)
        with m.If(~marked & put & AnySeq(1)):
            m.d.sync += [marked.eq(1), word.eq(queue.i.p), ahead.eq(inside - get)]
        with m.If(marked & get):
            m.d.sync += ahead.eq(ahead - 1)
            with m.If(ahead == 0):
                m.d.sync += [marked.eq(0)]
                m.d.comb += Assert(queue.o.p == word, "words leave in order, unchanged")
        self.invariant(
            m,
            ~marked | ((ahead < inside) & (queue_word(dut, ahead) == word)),
            "a marked word is where it should be",
        )
        m.d.comb += [
            Cover((most == self.depth) & (inside == 0), "full, then empty"),
            Cover(
                (inside == self.depth) & queue.o.valid & before(m, inside == self.depth, "full_before"),
                "full for two cycles",
            ),
            Cover(marked & get & (ahead == 0) & (queue.o.p == 0xA5), "a marked word leaves"),
        ]


def _forgets_full(dut):
    dut.module.d.comb += dut.component.i.ready.eq(1)


def _skips(dut):
    """The read pointer runs on without a transfer."""
    _write, read, _stored, _register = pointers(dut)
    with dut.module.If(dut.component.o.valid):
        dut.module.d.sync += read.eq(read + 1)


def _drops_valid(dut):
    """The output register is given up while the consumer waits."""
    with dut.module.If(dut.component.o.valid & ~dut.component.i.valid):
        dut.module.d.sync += dut.component.o.valid.eq(0)


def _reads_over(dut):
    """The output register is refilled although its word was not taken."""
    dut.module.d.comb += dut.memory().read_ports[0].en.eq(dut.signal("stored") != 0)


class ShallowQueue(_QueueProof):
    title = "Queue in distributed RAM: stream rules, first in first out, no loss (depth 8, 8 bits)"
    depth, deep = 8, False
    bmc, cover = 8, 20
    fast = True
    broken = {
        "takes words when full": (_forgets_full, "ready means room"),
        "read pointer runs on": (_skips, "output holds until ready"),
    }


class DeepQueue(_QueueProof):
    title = (
        "Queue in block RAM with output register: stream rules, first in first out, no loss (depth 8, 8 bits)"
    )
    depth, deep = 8, True
    bmc, cover = 8, 22
    fast = True
    broken = {
        "takes words when full": (_forgets_full, "ready means room"),
        "gives up a word that waits": (_drops_valid, "output holds until ready"),
        "refills a register in use": (_reads_over, "output holds until ready"),
    }


class ReadFifo(_QueueProof):
    title = "Queue in block RAM at the size of the read FIFO (depth 512, 8 bits)"
    depth, deep = 512, True
    bmc, cover = 8, None


PROOFS = [ShallowQueue, DeepQueue, ReadFifo]
