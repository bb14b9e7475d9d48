"""Runs of consecutive beats to AXI bursts: contiguous runs merge, bursts end at 16 beats and at 4 KB."""

from amaranth.hdl import Assert, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..axi import BURST_BITS, MAX_BURST, PAGE_BYTES
from ..config import Engine
from ..lib.slice import Slice
from ..types import BEAT_ADDRESS

RUN = data.StructLayout({"address": BEAT_ADDRESS, "beats": BEAT_ADDRESS})  # consecutive beats
# 1 .. MAX_BURST beats
BURST = data.StructLayout({"address": BEAT_ADDRESS, "beats": BURST_BITS, "less_one": BURST_BITS - 1})
# a run, the length of the longest burst at its start, and whether it begins where the run before it ended
_ENTERED = data.StructLayout({"run": RUN, "limit": BURST_BITS, "follows": 1})


class BurstMerger(wiring.Component):
    """Cuts runs into bursts, and merges by address, not by row: a run that continues the last one extends it.

    A short burst leaves as soon as no continuing run is waiting, so that merging never costs time on an idle
    port. Bursts are cut from the start of a merged run, at MAX_BURST beats and at multiples of 4 KB.
    Throughput: a run of up to MAX_BURST beats and a burst a cycle; a longer run takes a cycle a burst.
    Back-pressure: `i.ready` falls while bursts wait and the held run cannot be extended. `i` ends in a
    register slice, in front of which addresses are compared, and `o` comes from one: no path leads through
    the merger.

    Parameters
    ----------
    engine : Engine
    merges : bool
        Without, runs are cut alone: for few and long ones. A run then enters every other cycle.

    Attributes
    ----------
    LATENCY : int
        Cycles from a run to its first burst, when nothing continues it.

    Members
    -------
    i : In(stream of RUN), beats > 0
    o : Out(stream of BURST)
    free : Out
        No run waits at the entrance.
    idle : Out
        Nothing is held.
    """

    LATENCY = 3

    def __init__(self, engine: Engine, *, merges: bool = True):
        self._page, self._merges = PAGE_BYTES // engine.beat_bytes, merges
        super().__init__(
            {
                "i": In(stream.Signature(RUN)),
                "o": Out(stream.Signature(BURST)),
                "free": Out(1),
                "idle": Out(1),
            }
        )

    def _limit(self, address, bursts=0):
        """Beats of the longest burst that may start at `address`, or `bursts` times MAX_BURST behind it.

        A page is a multiple of MAX_BURST, so only its last MAX_BURST beats limit a burst.
        """
        low = exact_log2(MAX_BURST)
        last = address[low : exact_log2(self._page)] == self._page // MAX_BURST - 1 - bursts
        return Mux(last, MAX_BURST - address[:low], MAX_BURST)[: low + 1]

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Slice(BURST)
        connect(m, queue.o, flipped(self.o))
        source = self._enter(m)
        run = source.p.run
        # The held run: first beat, length of its first burst if it is that long, what it has beyond.
        holds, address, limit = Signal(), Signal(BEAT_ADDRESS), Signal(BURST_BITS)
        excess = Signal(signed(BEAT_ADDRESS + 2))
        beats = Signal(BURST_BITS)  # of the held run; meaningful while it is shorter than a burst
        full, whole, continues, emit, load = Signal(), Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            full.eq(~excess[-1]),
            whole.eq(~full | (excess == 0)),
            emit.eq(holds & queue.i.ready & (full | ~continues)),
            load.eq(~holds | (emit & whole)),
            source.ready.eq(load | continues),
            queue.i.valid.eq(emit),
            queue.i.p.address.eq(address),
            queue.i.p.beats.eq(Mux(full, limit, beats)),
            queue.i.p.less_one.eq(Mux(full, limit - 1, beats - 1)),
            self.idle.eq(~holds & ~self.o.valid & ~source.valid),
        ]
        if self._merges:
            # A long run is not extended: it has bursts enough, and its length stays within bounds.
            short = ~full | (excess[exact_log2(MAX_BURST) :] == 0)
            m.d.comb += continues.eq(source.valid & source.p.follows & short)
        taken = source.valid & source.ready
        extended = Signal.like(excess)
        m.d.comb += extended.eq(excess + run.beats)
        with m.If(load & (source.valid | holds)):
            first = source.p.limit
            m.d.sync += [
                holds.eq(source.valid),
                address.eq(run.address),
                limit.eq(first),
                excess.eq(run.beats - first),
                beats.eq(run.beats),
            ]
        with m.Elif(emit):
            # right too if this burst ends at a page: the next one starts there
            after = self._limit(address, bursts=1)
            m.d.sync += [
                address.eq(address + limit),
                limit.eq(after),
                excess.eq(
                    Mux(continues, extended - after, excess - after) if self._merges else excess - after
                ),
                beats.eq(Mux(continues, extended, excess) if self._merges else excess),
            ]
        if self._merges:
            with m.Elif(taken):
                m.d.sync += [excess.eq(extended), beats.eq(beats + run.beats)]
        self._check(m, queue.i)
        return m

    def _enter(self, m):
        """The register slice at `i`; runs come out of it with what the addresses say."""
        if not self._merges:
            return self._enter_alone(m)
        m.submodules.entry = entry = Slice(_ENTERED)
        end = Signal(BEAT_ADDRESS)  # the beat behind the last run
        # Compared by a carry chain, which no mapper makes longer: the address is a sum that comes late.
        differs = ((self.i.p.address ^ end) + ((1 << BEAT_ADDRESS) - 1))[BEAT_ADDRESS]
        m.d.comb += [
            entry.i.valid.eq(self.i.valid),
            self.i.ready.eq(entry.i.ready),
            entry.i.p.run.eq(self.i.p),
            entry.i.p.follows.eq(~differs),
            entry.i.p.limit.eq(self._limit(self.i.p.address)),
            self.free.eq(~entry.o.valid),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += end.eq(self.i.p.address + self.i.p.beats)
        return entry.o

    def _enter_alone(self, m):
        """A register at `i` that takes a run when it is empty."""
        entry = stream.Signature(_ENTERED).create()
        m.d.comb += [self.i.ready.eq(~entry.valid), self.free.eq(~entry.valid)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                entry.valid.eq(1),
                entry.p.run.eq(self.i.p),
                entry.p.limit.eq(self._limit(self.i.p.address)),
            ]
        with m.Elif(entry.ready):
            m.d.sync += entry.valid.eq(0)
        return entry

    def _check(self, m, burst):
        with m.If(burst.valid):
            offset = burst.p.address[: exact_log2(self._page)]
            m.d.sync += [
                Assert((burst.p.beats != 0) & (burst.p.beats <= MAX_BURST), "burst length"),
                Assert(offset + burst.p.beats <= self._page, "a burst crosses 4 KB"),
            ]
        with m.If(self.i.valid):
            m.d.sync += Assert(self.i.p.beats != 0, "an empty run")
