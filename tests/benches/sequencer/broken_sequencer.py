"""Parts of the sequencer with one mistake each: the benches must see every one of them."""

import functools

from amaranth.hdl import Cat, Module, Signal, signed

from symlight.hw.interface import ErrorCode, StopReason
from symlight.hw.sequencer.argmax import Argmax
from symlight.hw.sequencer.dispatch import Dispatcher
from symlight.hw.sequencer.load import LoadUnit
from symlight.hw.sequencer.session import Session
from symlight.hw.sequencer.state_transfer import StateUnit
from symlight.hw.sequencer.store import Barrier
from symlight.hw.sequencer.tasks import TaskRunner
from symlight.hw.sequencer.tokens import TokenLoop
from tests.benches.bench_build import ports_only, to_verilog
from tests.benches.sequencer.sequencer_bench import ENGINE, MANY, RECIPROCAL
from tests.benches.vector.vector_bench import SideBySide


class LastWins(Argmax):
    """Ties go to the channel that answers last, and a channel without rows counts."""

    def elaborate(self, platform):
        m = Module()
        logit, token = Signal(signed(48)), Signal(16)
        new = Cat(self.word[0], self.word[1])[:48].as_signed()
        m.d.sync += self.best.eq(token)
        with m.If(self.valid & (self.first | (new >= logit))):
            m.d.sync += [logit.eq(new), token.eq(self.word[2])]
        return m


class Forgetful(Barrier):
    """Remembers that a channel has arrived, but not how often."""

    def elaborate(self, platform):
        m = Module()
        arrived = Signal(ENGINE.channels)
        kept = arrived & ~self.consume.replicate(ENGINE.channels)
        m.d.sync += [arrived.eq(kept | self.pulses), self.ready.eq(arrived.all())]
        return m


class FirstRow(Dispatcher):
    """Reads the embedding of token 0 in every pass, and rows by the table's mode."""

    def _command(self, m, info, side_bits, embed_base):
        m.d.sync += self.command.eq(self.entry.command)


class NoEnd(TokenLoop):
    """Calls every end the end of the budget."""

    def _stop(self, m, reason, error=ErrorCode.NONE, address=0):
        super()._stop(m, StopReason.LENGTH if error == ErrorCode.NONE else reason, error, address)


class Trusting(Session):
    """Takes a run for done while the memory still owes answers."""

    def _settle(self, m):
        m.next = "REPORT"


class OtherSlopes(LoadUnit):
    """Reads the slopes where the GELU table is stored."""

    def _section(self, m, section, base, requested):
        super()._section(m, section, base, requested)
        with m.If(section == 4):
            m.d.sync += base.eq(self.header.gelu_base)


class Skewed(StateUnit):
    """Begins the second memory at its second word."""

    def _step(self, m, following):
        super()._step(m, following)
        m.d.sync += self._index.eq(self._index + 1)


@functools.cache
def broken() -> str:
    """Verilog of all of them side by side."""
    return ports_only(
        to_verilog(
            SideBySide(
                argmax=LastWins(ENGINE),
                barrier=Forgetful(ENGINE.channels),
                dispatch=FirstRow(ENGINE),
                tokens=NoEnd(ENGINE),
                session=Trusting(MANY),
                load=OtherSlopes(ENGINE),
                state=Skewed(ENGINE),
                tasks=TaskRunner(ENGINE, reciprocal_latency=RECIPROCAL - 3),
            )
        )
    )
