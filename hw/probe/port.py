"""A port that reads bursts and measures when their beats come."""

from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..axi import ADDRESS_BITS, BURST_INCR, PAGE_BYTES, RESP_OKAY, AxiRead, byte_address
from ..config import Engine
from ..lib.in_flight import InFlight
from ..types import BEAT_ADDRESS
from .layout import LATENCY_BITS, MOST_FLYING, Pattern, PortResult

TIME_BITS = 32


class ProbePort(wiring.Component):
    """Reads `bursts` bursts from `pointer` on, with at most `flying` on their way, and takes every beat at
    once.

    Throughput: a burst and a beat a cycle, so what is measured is the memory's alone. Back-pressure: none;
    RREADY is always high.

    Attributes
    ----------
    LATENCY : int
        Cycles from `start` to the first address on AR.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    start : In
        Pulse: begin, with `bursts` at least 1; the result starts afresh.
    bursts, flying, span, pattern, gap, pointer : In
        As `layout`; stable from `start` until `busy` falls.
    busy : Out
        From the cycle after `start` until every beat has come.
    fault : Out
        A response was not OKAY; until the next `start`.
    result : Out
        Complete two cycles after `busy` has fallen.
    bus : Out(AxiRead)
    """

    LATENCY = 2

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "start": In(1),
                "bursts": In(32),
                "flying": In(range(MOST_FLYING + 1)),
                "span": In(32),
                "pattern": In(Pattern),
                "gap": In(32),
                "pointer": In(ADDRESS_BITS),
                "busy": Out(1),
                "fault": Out(1),
                "result": Out(PortResult),
                "bus": Out(AxiRead(engine.beat_bytes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        now = Signal(TIME_BITS)
        m.d.sync += now.eq(now + 1)
        ended = self._reads(m)
        self._latency(m, now)
        self._gaps(m)
        with m.If(self.busy):
            m.d.sync += self.result.cycles.eq(self.result.cycles + 1)
        with m.If(self.bus.rvalid):
            m.d.sync += self.result.beats.eq(self.result.beats + 1)
            with m.If(self.bus.rresp != RESP_OKAY):
                m.d.sync += self.fault.eq(1)
        with m.If(ended):
            m.d.sync += self.busy.eq(0)
        with m.If(self.start):
            m.d.sync += [
                self.busy.eq(1),
                self.fault.eq(0),
                self.result.eq(0),
                self.result.latency_least.eq((1 << LATENCY_BITS) - 1),
            ]
        return m

    def _reads(self, m):
        """Addresses; returns "the last beat comes"."""
        bus, beat_bytes = self.bus, self._engine.beat_bytes
        left, turn = Signal(32), Signal(32)  # bursts to ask for; bursts before the first address is due again
        flying = Signal(range(MOST_FLYING + 1))
        place = Signal(BEAT_ADDRESS)
        go, landed = Signal(), Signal()
        m.d.comb += [
            bus.rready.eq(1),
            bus.arsize.eq(exact_log2(beat_bytes)),
            bus.arburst.eq(BURST_INCR),
            bus.arlen.eq(self.pattern.beats - 1),
            go.eq((left != 0) & (flying < self.flying) & (~bus.arvalid | bus.arready)),
            landed.eq(bus.rvalid & bus.rlast),
        ]
        with m.If(go):
            m.d.sync += [
                bus.arvalid.eq(1),
                bus.araddr.eq(byte_address(self.pointer, place, beat_bytes)),
                left.eq(left - 1),
                turn.eq(Mux(turn == 0, self.span - 1, turn - 1)),
                place.eq(Mux(turn == 0, 0, place + self.pattern.stride)),
            ]
        with m.Elif(bus.arready):
            m.d.sync += bus.arvalid.eq(0)
        with m.If(bus.arvalid):
            page = exact_log2(PAGE_BYTES // beat_bytes)
            within = bus.araddr[exact_log2(beat_bytes) :][:page] + self.pattern.beats
            m.d.sync += Assert(within <= 1 << page, "a burst of the probe crosses 4 KB")
        with m.If(go & ~landed):
            m.d.sync += flying.eq(flying + 1)
        with m.Elif(landed & ~go):
            m.d.sync += flying.eq(flying - 1)
        with m.If(self.start):
            m.d.sync += [left.eq(self.bursts), turn.eq(self.span - 1), place.eq(0)]
        return landed & (left == 0) & (flying == 1)

    def _latency(self, m, now):
        """From a burst's address to its first beat: the addresses' times wait in order."""
        bus, result = self.bus, self.result
        m.submodules.times = times = InFlight(TIME_BITS, depth=2 * MOST_FLYING)
        first = Signal(init=1)  # the next beat begins a burst
        measured, latency, asked, came = (
            Signal(),
            Signal(LATENCY_BITS),
            Signal(TIME_BITS),
            Signal(TIME_BITS),
        )
        begins = bus.rvalid & first
        m.d.comb += [
            times.i.valid.eq(bus.arvalid & bus.arready),
            times.i.p.eq(now),
            times.pop.eq(begins),
        ]
        with m.If(bus.rvalid):
            m.d.sync += [
                first.eq(bus.rlast),
                Assert(~begins | ~times.empty, "a beat that nobody asked for"),
            ]
        taken = Signal()
        m.d.sync += [taken.eq(begins), asked.eq(times.oldest), came.eq(now), measured.eq(taken)]
        cycles = (came - asked)[:TIME_BITS]
        m.d.sync += latency.eq(Mux(cycles[LATENCY_BITS:].any(), (1 << LATENCY_BITS) - 1, cycles))
        with m.If(measured):
            m.d.sync += result.latency_sum.eq(result.latency_sum + latency)
            with m.If(latency < result.latency_least):
                m.d.sync += result.latency_least.eq(latency)
            with m.If(latency > result.latency_most):
                m.d.sync += result.latency_most.eq(latency)

    def _gaps(self, m):
        """Runs of cycles without a beat, from the first beat on."""
        result, quiet = self.result, Signal(32)  # cycles without a beat so far
        began, ended, length = Signal(), Signal(), Signal(32)
        m.d.sync += ended.eq(0)
        with m.If(self.bus.rvalid):
            m.d.sync += [began.eq(1), quiet.eq(0), ended.eq(began), length.eq(quiet)]
        with m.Else():
            m.d.sync += quiet.eq(quiet + 1)
        with m.If(ended):
            with m.If(length > result.gap_longest):
                m.d.sync += result.gap_longest.eq(length)
            with m.If(length >= self.gap):
                m.d.sync += [
                    result.gaps.eq(result.gaps + 1),
                    result.gap_cycles.eq(result.gap_cycles + length),
                ]
        with m.If(self.start):
            m.d.sync += [began.eq(0), quiet.eq(0), ended.eq(0)]
