"""Serial bytes: eight bits, no parity, one stop bit."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from symlight.base.errors import UserError

TOLERANCE = 0.015  # of the bit time; the far side has as much again


def divisor(clock_hz: float, baud: int) -> int:
    """Clock cycles of a bit; a `UserError` when none is near enough to the rate."""
    cycles = max(1, round(clock_hz / baud))
    if abs(clock_hz / cycles / baud - 1) > TOLERANCE or cycles < 4:
        raise UserError(
            f"a clock of {clock_hz / 1e6:g} MHz has no divisor for {baud} baud within "
            f"{TOLERANCE:.1%}; choose another rate"
        )
    return cycles


class UartReceiver(wiring.Component):
    """Bytes off a line. Sampled once, in the middle of each bit; a byte without stop bit is dropped.

    Back-pressure: none; a byte that is not taken until the next one has come is lost.

    Parameters
    ----------
    divisor : int
        Cycles of a bit, at least 4.

    Members
    -------
    line : In
        Idle high; asynchronous.
    o : Out(stream of bytes)
    """

    def __init__(self, *, divisor: int):
        self._divisor = divisor
        super().__init__({"line": In(1, init=1), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        line, bits = Signal(init=1), Signal(9)
        m.submodules.synchronizer = FFSynchronizer(self.line, line, init=1)
        wait, count = Signal(range(self._divisor)), Signal(range(11))
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(count == 0):
            m.d.sync += wait.eq(self._divisor // 2 - 1)
            with m.If(~line):
                m.d.sync += count.eq(10)
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [wait.eq(self._divisor - 1), count.eq(count - 1), bits.eq(Cat(bits[1:], line))]
            with m.If((count == 10) & line):  # a glitch, not a start bit
                m.d.sync += count.eq(0)
            with m.If((count == 1) & line):
                m.d.sync += [self.o.valid.eq(1), self.o.p.eq(bits[1:])]
        return m


class UartTransmitter(wiring.Component):
    """Bytes onto a line.

    Throughput: a byte in ten bit times and a cycle. Back-pressure: `i.ready`.

    Parameters
    ----------
    divisor : int
        Cycles of a bit.

    Members
    -------
    i : In(stream of bytes)
    line : Out
    """

    def __init__(self, *, divisor: int):
        self._divisor = divisor
        super().__init__({"i": In(stream.Signature(8)), "line": Out(1, init=1)})

    def elaborate(self, platform):
        m = Module()
        wait, count, bits = Signal(range(self._divisor)), Signal(range(11)), Signal(10, init=1)
        m.d.comb += self.i.ready.eq(count == 0)
        m.d.sync += self.line.eq(bits[0])
        with m.If(self.i.ready):
            with m.If(self.i.valid):
                m.d.sync += [bits.eq(Cat(0, self.i.p, 1)), count.eq(10), wait.eq(self._divisor - 1)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Else():
            m.d.sync += [wait.eq(self._divisor - 1), count.eq(count - 1), bits.eq(Cat(bits[1:], 1))]
        return m
