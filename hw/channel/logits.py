"""What becomes of a channel's logits besides the maximum: to its HBM buffer, and the K largest in order.

rows of the head (48 bits, one a cycle) ─┬─► beat of 64-bit words ─► writer
                                         └─► above the floor? ─► replaces the smallest ─► scan for the floor
next ◄─ scan for the largest, once all rows are in
"""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from symlight.model.sampling import CANDIDATES

from ..config import Engine
from ..lib.extremes import ExtremeScan
from ..types import BEAT_ADDRESS, Source, write_layout

WORD_BYTES = 8  # a logit in memory: int64, little endian
LOGIT_BITS = 48
ID_BITS = 16
KEY_BITS = LOGIT_BITS + ID_BITS
BANKS = 2  # candidates that a scan reads per cycle


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
    """A logit and its vocabulary id; `valid` is 0 beyond the last candidate, `busy` means: ask again."""

    logit: signed(LOGIT_BITS)
    id: ID_BITS
    valid: 1
    busy: 1


class CandidateList(wiring.Component):
    """Keeps the K largest rows of a head operation.

    A row that is not among the largest so far costs no time. One that is replaces the smallest, and the next
    row waits until a scan has found the new smallest. After `finish`, scans find the rows in descending
    order; each is removed as it is found.

    Parameters
    ----------
    count : int
        K, a power of two, at least 4.

    Attributes
    ----------
    SCAN : int
        Cycles of a scan.

    Members
    -------
    start, wanted : In
        Pulse: a head operation begins; whether its candidates are kept. No row comes with it.
    row_valid, some, row, id : In
        A logit with its id; without `some` it is padding, which is never a candidate.
    hold : Out
        The row is not taken and must stay.
    finish : In
        Pulse: all rows have been taken.
    next : Out(Candidate)
        The largest row that is left; the first one is the maximum of all.
    pop : In
        Pulse, while `next` is not busy: go on to the row behind it.
    """

    def __init__(self, *, count: int = CANDIDATES):
        self._numbers = ExtremeScan(count=count, banks=BANKS, bits=KEY_BITS)
        self.SCAN = self._numbers.LATENCY
        super().__init__(
            {
                "start": In(1),
                "wanted": In(1),
                "row_valid": In(1),
                "some": In(1),
                "row": In(signed(LOGIT_BITS)),
                "id": In(ID_BITS),
                "hold": Out(1),
                "finish": In(1),
                "next": Out(Candidate),
                "pop": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.numbers = numbers = self._numbers
        on, filled, count = Signal(), Signal(), Signal.like(numbers.place)
        finished = Signal()  # waits for the last row's scan
        key, found = self._key(), numbers.found
        floor, floor_place = Signal(KEY_BITS, reset_less=True), Signal.like(numbers.place)
        m.d.comb += [
            self.hold.eq(1),
            self.next.busy.eq(1),
            self.next.valid.eq(found != 0),
            self.next.logit.eq(Cat(found[ID_BITS:-1], ~found[-1]).as_signed()),
            self.next.id.eq(~found[:ID_BITS]),
        ]
        self._fresh = Signal()  # an operation waits for the scan of the one before
        with m.If(self.finish):
            m.d.sync += finished.eq(1)
        with m.FSM():
            with m.State("ROWS"):
                m.d.comb += self.hold.eq(self._fresh)
                with m.If(self.row_valid & ~self._fresh & self.some & on & (~filled | (key > floor))):
                    self._store(m, Mux(filled, floor_place, count), key)
                    m.d.sync += count.eq(count + 1)
                    with m.If(filled | count.all()):
                        m.d.sync += filled.eq(1)
                        self._scan(m, largest=False)
                        m.next = "FLOOR"
                with m.If(finished & on & ~self._fresh):
                    self._scan(m, largest=True)
                    m.next = "LARGEST"
                self._begin(m, on, filled, count)
            with m.State("CLEAR"):  # no entry of the operation before may be taken for one of this
                self._store(m, count, 0, every=True)
                m.d.sync += count.eq(count + BANKS)
                with m.If(count[exact_log2(BANKS) :].all()):
                    m.d.sync += count.eq(0)
                    m.next = "ROWS"
            with m.State("FLOOR"):
                with m.If(numbers.done):
                    m.d.sync += [floor.eq(found), floor_place.eq(numbers.found_place)]
                    m.next = "ROWS"
            with m.State("LARGEST"):
                with m.If(numbers.done):
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += self.next.busy.eq(self._fresh)
                with m.If(self.pop & self.next.valid):
                    self._store(m, numbers.found_place, 0)
                    m.next = "REMOVED"
                self._begin(m, on, filled, count)
            with m.State("REMOVED"):
                self._scan(m, largest=True)
                m.next = "LARGEST"
                self._begin(m, on, filled, count)
        with m.If(self.start):
            m.d.sync += [self._fresh.eq(1), on.eq(self.wanted), finished.eq(0)]
        return m

    def _key(self):
        """An unsigned number that orders rows: larger logits first, then lower ids. No row has key 0."""
        return Cat(~self.id, self.row[:-1], ~self.row[-1])

    def _begin(self, m, on, filled, count):
        """A new operation, in a state in which no scan runs."""
        with m.If(self._fresh):
            m.d.sync += [self._fresh.eq(0), filled.eq(0), count.eq(0)]
            with m.If(on):
                m.next = "CLEAR"
            with m.Else():
                m.next = "ROWS"

    def _store(self, m, place, key, every=False):
        m.d.comb += [
            self._numbers.write.eq(1),
            self._numbers.every.eq(int(every)),
            self._numbers.place.eq(place),
            self._numbers.value.eq(key),
        ]

    def _scan(self, m, *, largest: bool):
        m.d.comb += [self._numbers.begin.eq(1), self._numbers.largest.eq(int(largest))]


def second_best(m, candidates: CandidateList, start, drain) -> list:
    """Answers NEXT requests of `drain` from a list: lanes {low logit, high logit, id, valid and busy}.

    The first row of the list answers BEST already, so it is dropped as soon as it is found. `start` begins an
    operation.
    """
    asked = drain.valid & (drain.request.source == Source.NEXT)
    row, dropped = candidates.next, Signal()
    busy = row.busy | ~dropped
    with m.If(start):
        m.d.sync += dropped.eq(0)
    with m.Elif(~row.busy):
        m.d.sync += dropped.eq(1)
    m.d.comb += candidates.pop.eq(~row.busy & (~dropped | asked))
    halves = [row.logit[:32].as_signed(), row.logit[32:].as_signed()]
    return [*halves, row.id, Cat(row.valid & ~busy, busy)]
