"""hw.channel.loader.Loader: asks for beats only when it has a place to file them, and files all of them."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal

from symlight.hw.channel.loader import Loader
from symlight.hw.config import Engine

from .opened import Opened, drive_freely
from .proof import AnyConst, Proof, assume_holds, before, holds
from .proofs_queue import queue_invariant

ENGINE = Engine(channels=2, lanes=16, query_words=2)
SLOTS = 6  # most slots of a command


class Filing(Proof):
    title = (
        f"Loader (slots of up to {ENGINE.query_words} beats of k and of v, up to {SLOTS} slots a command): "
        "runs and arrivals hold; every beat asked for is filed in its place or is the current token's; none "
        "is left; at most two commands ahead of attention"
    )
    bmc, cover = 13, 20

    def component(self):
        return Loader(ENGINE)

    def claim(self, m: Module, dut: Opened):
        port, filing = dut.component, dut.part("filing")
        drive_freely(m, port, but=("ring", "half", "group", "active"))
        m.d.comb += [
            value.eq(AnyConst(len(value)))
            for value in (port.ring.as_value(), port.half, port.group, port.active)
        ]
        command, log = port.commands.p, port.ring.log_groups
        m.d.comb += [
            Assume((log <= 1) & (port.group <= log) & (port.half != 0) & (port.half <= ENGINE.query_words)),
            Assume((command.load <= SLOTS) & (command.slot < SLOTS) & (command.stage < 1 << 10)),
        ]
        assume_holds(m, port.commands.valid, port.commands.ready, command, "commands hold")
        assume_holds(m, port.beats.valid, port.beats.ready, port.beats.p, "beats hold")
        asked, taken = port.runs.valid & port.runs.ready, port.beats.valid & port.beats.ready
        arrives = port.arrivals.valid & port.arrivals.ready
        owed = Signal(12)  # beats asked for and not taken; no others come
        m.d.sync += owed.eq(owed + Mux(asked, port.runs.p.beats, 0) - taken)
        m.d.comb += Assume(~port.beats.valid | (owed != 0))
        ahead, offered = dut.signal("ahead"), before(m, port.runs.valid & ~port.runs.ready, "offered")
        m.d.comb += Assume(~port.attended | (ahead >= 0))

        holds(m, port.runs.valid, port.runs.ready, port.runs.p, "runs hold until ready")
        holds(m, port.arrivals.valid, port.arrivals.ready, port.arrivals.p, "arrivals hold until ready")
        work, offset, begin, slot, beat, value = (
            filing.component.o,
            dut.signal("offset"),
            dut.signal("begin"),
            dut.signal("slot"),
            dut.signal("beat"),
            dut.signal("value"),
        )
        place = (slot * port.half + beat)[:14]
        of_slot = Signal(3)  # beats of the slot that were taken: k, then v
        with m.If(taken):
            m.d.sync += of_slot.eq(Mux(of_slot + 1 == port.half << 1, 0, of_slot + 1))
        current = work.p.drop & (slot == work.p.local)
        m.d.comb += [
            Assert((ahead >= -1) & (ahead <= 2), "at most two commands ahead of attention"),
            Assert(~asked | (port.runs.p.beats != 0), "no empty run"),
            Assert(
                ~port.runs.valid | offered | before(m, port.writes_quiet, "was_quiet"),
                "a run is first offered when no write was outstanding",
            ),
            Assert(
                ~port.beats.valid
                | port.beats.ready
                | (port.arrivals.valid & ~port.arrivals.ready)
                | (work.valid & (work.p.slots == 0)),
                "beats wait for the staging memory or for a command without slots to pass",
            ),
            Assert(~arrives | ~current, "the current token's slot is not filed"),
            Assert(~taken | arrives | current, "every other beat is filed"),
            Assert(
                ~arrives
                | (port.arrivals.p.address == (work.p.stage + place)[: len(port.arrivals.p.address)]),
                "a beat goes to its place",
            ),
            Assert(~arrives | (slot < work.p.slots), "only beats of the command's slots"),
            Assert(
                ~arrives | (port.arrivals.p.value == (of_slot >= port.half)),
                "k beats to one half, v beats to the other",
            ),
            Assert(
                ~arrives | (port.arrivals.p.data.as_value() == port.beats.p.as_value()),
                "beats are filed unchanged",
            ),
            Assert((owed == 0) | work.valid, "beats asked for have a command"),
            Assert((filing.component.level != 0) | (owed == 0), "no beat is left behind the last command"),
        ]
        self.invariant(m, queue_invariant(filing), "queue agrees")
        self.invariant(m, ~work.valid | (offset == place), "offset counts beats")
        self.invariant(m, ~work.valid | (begin == (slot * port.half)[:14]), "begin counts slots")
        self.invariant(m, of_slot == Mux(value, port.half, 0) + beat, "beats of a slot")
        loads = Signal(2)
        with m.If(asked & (loads != 3)):
            m.d.sync += loads.eq(loads + 1)
        m.d.comb += [
            Cover(taken & current & (slot == 1) & (port.half == 1), "a beat of the current token"),
            Cover(
                arrives & (loads == 2) & (filing.component.level == 1) & (owed == 1),
                "the last beat of the second load",
            ),
            Cover(ahead == -1, "attention finishes a command that loads nothing first"),
            Cover(port.arrivals.valid & ~port.arrivals.ready, "an arrival waits"),
        ]


def _files_current(dut):
    """The current token's slot is filed like the others."""
    dut.module.d.comb += dut.component.arrivals.valid.eq(
        dut.component.beats.valid & dut.part("filing").component.o.valid & ~dut.signal("empty")
    )


def _fickle(dut):
    """A run is offered only while no write is outstanding, whatever was offered before."""
    dut.module.d.sync += dut.signal("offered").eq(0)


def _short(dut):
    """The last slot of a command is not waited for."""
    with dut.module.If(dut.component.beats.valid & dut.component.beats.ready & dut.signal("last_beat")):
        dut.module.d.comb += dut.part("filing").component.o.ready.eq(1)


def _mixed(dut):
    """The first v beat of a slot goes to the keys."""
    with dut.module.If(dut.signal("beat") == 0):
        dut.module.d.comb += dut.component.arrivals.p.value.eq(0)


def _stuck(dut):
    """Slots do not move on."""
    dut.module.d.sync += dut.signal("offset").eq(0)


Filing.broken = {
    "files the current token's slot": (_files_current, "the current token's slot is not filed"),
    "takes back a run": (_fickle, "runs hold until ready"),
    "gives up a command after a slot": (_short, "beats asked for have a command"),
    "v beats among the keys": (_mixed, "k beats to one half, v beats to the other"),
    "every beat to the same place": (_stuck, "a beat goes to its place"),
}
Filing.broken_bmc = 14

PROOFS = [Filing]
