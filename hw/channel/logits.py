"""What becomes of a channel's logits besides the maximum: to its HBM buffer, and the K largest in order.

rows of the head (48 bits, one a cycle) ─┬─► beat of 64-bit words ─► writer
                                         └─► above the smallest kept? ─► queue ─► inserted in order ─► next
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from symlight.model.sampling import CANDIDATES

from ..config import Engine
from ..lib.queue import Queue
from ..types import BEAT_ADDRESS, Source, write_layout

WORD_BYTES = 8  # a logit in memory: int64, little endian
LOGIT_BITS = 48
ID_BITS = 16
KEY_BITS = LOGIT_BITS + ID_BITS
LOGIT_HEADS = 64  # evaluated heads of a run whose logits have room; a power of two


def beats_per_tile(engine: Engine) -> int:
    """Beats that the logits of a tile take."""
    return engine.lanes * WORD_BYTES // engine.beat_bytes


class LogitWriter(wiring.Component):
    """Packs the head's rows into beats and hands them to the channel's writer.

    Row n of an operation goes to word n from `base` on. Throughput: a row per cycle while `write` is taken.
    Back-pressure: while `hold` is high, the row is not taken and must stay.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from the last row of a beat to `write`.

    Members
    -------
    start, wanted, base : In
        Pulse: a head operation begins; whether its logits are written, and the first beat they go to. No row
        comes with it, and no beat waits.
    row_valid, row : In
        A logit, padding rows included.
    hold : Out
        A beat waits for the writer.
    idle : Out
        No beat waits.
    write : Out(stream.Signature(write_layout(engine)))
        Relative to the channel's own buffer.
    """

    LATENCY = 1

    def __init__(self, *, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "start": In(1),
                "wanted": In(1),
                "base": In(BEAT_ADDRESS),
                "row_valid": In(1),
                "row": In(signed(LOGIT_BITS)),
                "hold": Out(1),
                "idle": Out(1),
                "write": Out(stream.Signature(write_layout(engine))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = self._engine.beat_bytes // WORD_BYTES
        on, place = Signal(), Signal(range(count))
        words = [Signal(signed(LOGIT_BITS), name=f"word_{i}", reset_less=True) for i in range(count)]
        address, write, bits = Signal(BEAT_ADDRESS), self.write, 8 * WORD_BYTES
        m.d.comb += [
            self.hold.eq(write.valid & ~write.ready),
            self.idle.eq(~write.valid),
            write.p.io.eq(0),
            write.p.address.eq(address),
            *(write.p.data.as_value()[bits * i : bits * (i + 1)].eq(word) for i, word in enumerate(words)),
        ]
        with m.If(write.valid & write.ready):
            m.d.sync += [write.valid.eq(0), address.eq(address + 1)]
        # The words leave in the cycle in which the next row may come.
        with m.If(self.row_valid & on & ~self.hold):
            m.d.sync += place.eq(place + 1)
            with m.Switch(place):
                for i, word in enumerate(words):
                    with m.Case(i):
                        m.d.sync += word.eq(self.row)
            with m.If(place == count - 1):
                m.d.sync += write.valid.eq(1)
        with m.If(self.start):
            m.d.sync += [on.eq(self.wanted), place.eq(0), address.eq(self.base)]
        return m


class Candidate(data.Struct):
    """A logit and its vocabulary id; `valid` is 0 beyond the last candidate."""

    logit: signed(LOGIT_BITS)
    id: ID_BITS
    valid: 1


class CandidateList(wiring.Component):
    """Keeps the K largest rows of a head operation in order, by insertion into a memory.

    A row that is not among the largest so far costs no time. Others wait in a queue of `count` rows, and the
    head goes on. Before one of them, the smaller rows move up a place, one a cycle.

    Parameters
    ----------
    count : int
        K, a power of two.

    Attributes
    ----------
    INSERT : int
        Cycles that a row of the queue takes beside those of the rows that move up.
    NEXT_CYCLES : int
        Cycles from `finish` or `pop` until `next` is right.

    Members
    -------
    start, wanted : In
        Pulse: a head operation begins; whether its candidates are kept. No row comes with it. Only while
        `idle`.
    row_valid, some, row, id : In
        A logit with its id; without `some` it is padding, which is never a candidate.
    hold : Out
        The queue is full: the row is not taken and must stay.
    idle : Out
        No row waits or is being inserted.
    finish : In
        Pulse, while `idle`: all rows have been taken.
    next : Out(Candidate)
        The next row in descending order; the first one is the second largest, since the head has the largest.
    pop : In
        Pulse: go on to the row behind it.
    """

    INSERT = 2
    NEXT_CYCLES = 2

    def __init__(self, *, count: int = CANDIDATES):
        self._count = count
        super().__init__(
            {
                "start": In(1),
                "wanted": In(1),
                "row_valid": In(1),
                "some": In(1),
                "row": In(signed(LOGIT_BITS)),
                "id": In(ID_BITS),
                "hold": Out(1),
                "idle": Out(1),
                "finish": In(1),
                "next": Out(Candidate),
                "pop": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.rows = rows = Memory(shape=KEY_BITS, depth=self._count, init=[])
        write, read = rows.write_port(), rows.read_port(domain="comb")
        on, filled = Signal(), Signal()
        last = self._count - 1
        size = Signal(range(self._count))  # rows in the list unless `filled`
        # The row at the place before `hole` is in `before`; the one before that is read.
        hole, before = Signal(range(self._count)), Signal(KEY_BITS, reset_less=True)
        key, floor = Signal(KEY_BITS, reset_less=True), Signal(KEY_BITS, reset_less=True)
        incoming, place, left = self._key(), Signal(range(self._count)), Signal(range(self._count))
        m.submodules.queue = queue = Queue(KEY_BITS, depth=self._count)
        m.d.sync += before.eq(read.data)
        m.d.comb += [
            queue.i.valid.eq(self.row_valid & self.some & on & (~filled | (incoming > floor))),
            queue.i.p.eq(incoming),
            self.hold.eq(~queue.i.ready),
            read.addr.eq(place),
            write.addr.eq(hole),
            self.next.logit.eq(Cat(before[ID_BITS:-1], ~before[-1]).as_signed()),
            self.next.id.eq(~before[:ID_BITS]),
            self.next.valid.eq(left != 0),
        ]

        def begin():
            with m.If(self.start):
                m.d.sync += [on.eq(self.wanted), filled.eq(0), size.eq(0), hole.eq(0)]
                m.next = "ROWS"

        with m.FSM() as fsm:
            with m.State("ROWS"):
                # `hole` is the place behind the list, or its last one; `place` is the one before
                m.d.comb += queue.o.ready.eq(1)
                m.d.sync += key.eq(queue.o.p)
                with m.If(queue.o.valid & (~filled | (queue.o.p > floor))):
                    m.d.sync += place.eq(place - 1)
                    m.next = "INSERT"
                with m.If(self.finish):
                    kept = Mux(filled, last, Mux(size == 0, 0, size - 1))  # behind the first
                    m.d.sync += [place.eq(1), left.eq(kept)]
                    m.next = "GIVE"
                begin()
            with m.State("INSERT"):
                stop = Signal()
                m.d.comb += [
                    stop.eq((hole == 0) | (before > key)),
                    write.en.eq(1),
                    write.data.eq(Mux(stop, key, before)),
                ]
                with m.If(hole == last):
                    m.d.sync += floor.eq(write.data)
                m.d.sync += [hole.eq(hole - 1), place.eq(place - 1)]
                with m.If(stop):
                    full = filled | (size == last)
                    m.d.sync += [
                        filled.eq(full),
                        size.eq(Mux(full, last, size + 1)),
                        hole.eq(Mux(full, last, size + 1)),
                        place.eq(Mux(full, last - 1, size)),
                    ]
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.next = "ROWS"
            with m.State("GIVE"):
                with m.If(self.pop):
                    m.d.sync += [place.eq(place + 1), left.eq(Mux(left == 0, 0, left - 1))]
                begin()
        busy = fsm.ongoing("INSERT") | fsm.ongoing("SETTLE")
        m.d.comb += self.idle.eq(~busy & ~queue.o.valid)
        return m

    def _key(self):
        """An unsigned number that orders rows: larger logits first, then lower ids. No row has key 0."""
        return Cat(~self.id, self.row[:-1], ~self.row[-1])


def second_best(m, candidates: CandidateList, drain) -> list:
    """Answers NEXT requests of `drain` from a list: lanes {low logit, high logit, id, valid}."""
    row = candidates.next
    m.d.comb += candidates.pop.eq(drain.valid & (drain.request.source == Source.NEXT))
    return [row.logit[:32].as_signed(), row.logit[32:].as_signed(), row.id, row.valid]
