"""Which memory port still owes an answer, and whether it has owed it for too long."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..interface import CHANNEL_BITS

# Cycles after which an answer is lost. The slowest one takes some hundred: a full queue, and a refresh.
LOST_CYCLES = 1 << 16


class PortWatch(wiring.Component):
    """Looks at the ports while the session waits for them.

    Latency 1 cycle.

    Parameters
    ----------
    channels : int
    limit : int
        Cycles of waiting until `stuck`.

    Members
    -------
    quiet : In
        A bit a channel: nothing is outstanding at its port.
    waiting : In
        The session waits for all of them.
    all_quiet : Out
    stuck : Out
        They have been waited for `limit` cycles in a row.
    channel : Out
        The lowest one that is not quiet; valid unless `all_quiet`.
    """

    def __init__(self, channels: int, limit: int = LOST_CYCLES):
        self._channels, self._limit = channels, limit
        super().__init__(
            {
                "quiet": In(channels),
                "waiting": In(1),
                "all_quiet": Out(1),
                "stuck": Out(1),
                "channel": Out(CHANNEL_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(self._limit), init=self._limit - 1)
        m.d.sync += [self.all_quiet.eq(self.quiet.all()), self.stuck.eq(0)]
        for k in reversed(range(self._channels)):
            with m.If(~self.quiet[k]):
                m.d.sync += self.channel.eq(k)
        with m.If(~self.waiting | self.all_quiet):
            m.d.sync += left.eq(self._limit - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += self.stuck.eq(1)
        return m
