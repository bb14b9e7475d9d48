"""The other stream outputs of hw/: valid and payload hold until the transfer, whatever the inputs do."""

from amaranth.hdl import Assume, Cat, Cover, Module, Mux, Signal, Value
from amaranth.lib import wiring

from symlight.hw.config import Engine
from symlight.hw.mailbox import Mailbox, TokenWriter
from symlight.hw.sequencer.load import CHUNK, LoadUnit
from symlight.hw.sequencer.state_transfer import StateUnit
from symlight.hw.sequencer.tokens import TokenLoop

from .opened import Opened, drive_freely
from .proof import AnyConst, Proof, before, holds

ENGINE = Engine(channels=2, lanes=16)


def _moody(name):
    """A sabotage: the stream is not valid in one cycle of four."""

    def sabotage(dut):
        clock = Signal(2, name=f"{name}_clock")
        dut.module.d.sync += clock.eq(clock + 1)
        stream = getattr(dut.component, name)
        with dut.module.If(clock == 0):
            dut.module.d[dut.domain(stream.valid)] += stream.valid.eq(0)

    return sabotage


class _Outputs(Proof):
    """`streams` of a component hold; inputs `constant` keep their value."""

    streams: tuple[str, ...]
    constant: tuple[str, ...] = ()
    bmc, induction, cover = 4, 2, 30
    broken_bmc = 24

    def claim(self, m: Module, dut: Opened):
        port = dut.component
        drive_freely(m, port, but=self.constant)
        for path, member, value in port.signature.flatten(port):
            if member.flow is wiring.In and path[0] in self.constant:
                m.d.comb += Value.cast(value).eq(AnyConst(len(Value.cast(value))))
        self.assume(m, dut)
        for name in self.streams:
            s = getattr(port, name)
            holds(m, s.valid, s.ready, s.p, f"{name} holds until ready")
            m.d.comb += Cover(s.valid & before(m, s.valid & ~s.ready, f"{name}_waited"), f"{name} waits")

    def __init_subclass__(cls):
        cls.broken = {
            f"{name} is withdrawn at times": (_moody(name), f"{name} holds until ready")
            for name in cls.streams
        }

    def assume(self, m, dut):
        """Further assumptions and invariants."""


class TokenWrites(_Outputs):
    title = "TokenWriter: write holds"
    streams = ("write",)

    def component(self):
        return TokenWriter(engine=ENGINE)


class Tokens(_Outputs):
    title = "TokenLoop: tokens and prompt reads hold"
    streams, constant = ("side", "token"), ("header", "n_prompt", "n_new", "eos", "best")

    def component(self):
        return TokenLoop(ENGINE)


class MailboxWrites(_Outputs):
    title = "Mailbox: write holds"
    streams, constant = ("write",), ("fields",)

    def component(self):
        return Mailbox(engine=ENGINE, build_id=1)

    def assume(self, m, dut):
        self.invariant(
            m, ~dut.component.write.valid | dut.ongoing("WRITE"), "a beat is offered in WRITE only"
        )


class StateStreams(_Outputs):
    title = "StateUnit: writes and reads of the state image hold"
    streams, constant = ("write", "side"), ("header",)

    def component(self):
        return StateUnit(ENGINE)


class LoadReads(_Outputs):
    title = "LoadUnit: reads of the image hold"
    streams = ("side",)
    bmc, induction = 14, 12

    def component(self):
        return LoadUnit(ENGINE)

    def assume(self, m, dut):
        """Beats come when asked for; the GELU table gets busy within four cycles of a word."""
        port = dut.component
        owed = Signal(range(2 * CHUNK))
        m.d.sync += owed.eq(
            owed + Mux(port.side.valid & port.side.ready, port.side.p.count, 0) - port.beat_valid
        )
        m.d.comb += Assume(~port.beat_valid | (owed != 0))
        recent = [port.gelu_valid]
        for k in range(4):
            recent.append(before(m, recent[-1], f"gelu_valid{k}"))
        m.d.comb += Assume(~port.gelu_busy | before(m, port.gelu_busy, "busy_before") | Cat(recent[1:]).any())
        self.invariant(
            m,
            owed + dut.signal("requested") == dut.signal("arriving"),
            "beats to come were asked for or will be",
        )
        self.invariant(m, (owed == 0) | dut.ongoing("ARRIVE"), "one request at a time")
        chunk, requested = dut.signal("chunk"), dut.signal("requested")
        self.invariant(
            m,
            ~dut.ongoing("REQUEST") | ((chunk <= requested) & (chunk.any() == requested.any())),
            "a chunk is a part of what is to be requested",
        )


PROOFS = [TokenWrites, Tokens, MailboxWrites, StateStreams, LoadReads]
