"""hw.channel.fetch.Fetch: the AXI read master of a channel, against any memory that keeps the AXI rules."""

from unittest.mock import patch

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib import data
from opened import Opened, drive_freely
from proof import AnyConst, Proof, assume_holds, before, holds
from proofs_burst import legal
from proofs_queue import queue_invariant, queue_word

from symlight.hw.axi import BURST_INCR, MAX_BURST, PAGE_BYTES
from symlight.hw.channel import fetch
from symlight.hw.channel.burst import RUN
from symlight.hw.channel.fetch import Fetch
from symlight.hw.config import Engine
from symlight.hw.lib import Queue
from symlight.hw.types import Work

TAGS = 4  # bursts in flight, of 64: with the sum over them the proof grows
ENGINE = Engine(channels=8, lanes=16, read_beats=32, kv_inflight=24)
KV_AHEAD = 6  # KV commands the loader may be ahead of the fences


class Memory:
    """Any memory: it answers the bursts of AR in order, at any time, each with the beats that were asked for.

    Attributes
    ----------
    asked : Opened
        Queue of the lengths of the bursts it accepted, less one.
    sent : Signal
        Beats it sent of the oldest.
    owed : Signal
        Beats it accepted and has not sent.
    """

    def __init__(self, m: Module, port, bursts: int):
        queue = Queue(8, depth=bursts)
        self.asked = Opened(queue)
        m.submodules.asked = self.asked.module
        self.sent, self.owed = Signal(8), Signal(16)
        accepts, sends = port.arvalid & port.arready, port.rvalid & port.rready
        m.d.comb += [
            queue.i.valid.eq(accepts),
            queue.i.p.eq(port.arlen),
            queue.o.ready.eq(sends & port.rlast),
            Assume(~port.rvalid | queue.o.valid),
            Assume(port.rlast == (self.sent == queue.o.p)),
        ]
        assume_holds(m, port.rvalid, port.rready, Cat(port.rdata, port.rresp, port.rlast), "R holds")
        with m.If(sends):
            m.d.sync += self.sent.eq(Mux(port.rlast, 0, self.sent + 1))
        m.d.sync += self.owed.eq(self.owed + Mux(accepts, port.arlen + 1, 0) - sends)
        m.d.comb += Assert(~accepts | queue.i.ready, "no more bursts in flight than tags")


class ReadMaster(Proof):
    title = (
        f"Fetch ({ENGINE.lanes}-byte beats, read FIFO {ENGINE.read_beats}, {TAGS} tags): AR holds; "
        "bursts of 1 to 16 beats within 4 KB; "
        "beats asked for fit the read FIFO, so a weight beat never waits; every beat is taken"
    )
    bmc, induction, cover = 6, 2, 24
    assumed = ("dut.merger", "dut.kv_merger")  # proofs_burst

    def component(self):
        return Fetch(ENGINE)

    def reduced(self):
        return patch.object(fetch, "TAGS", TAGS)

    def claim(self, m: Module, dut: Opened):
        port = dut.component
        page = PAGE_BYTES // ENGINE.beat_bytes
        drive_freely(m, port, but=("pointer", "io_pointer"))
        self._callers(m, dut)
        memory = Memory(m, port, TAGS)
        for name in ("merger", "kv_merger"):
            burst = dut.part(name).component.o
            m.d.comb += Assume(~burst.valid | legal(burst.p, page))  # proofs_burst

        payload = Cat(port.araddr, port.arlen)
        holds(m, port.arvalid, port.arready, payload, "AR holds until ready")
        holds(m, port.beats.valid, port.beats.ready, port.beats.p, "beats hold until ready")
        holds(m, port.kv.valid, port.kv.ready, port.kv.p, "KV beats hold until ready", unless=port.abort)
        m.d.comb += [
            Assert(~port.arvalid | (port.arlen < MAX_BURST), "a burst has 1 to 16 beats"),
            Assert(
                ~port.arvalid
                | ((port.araddr & (PAGE_BYTES - 1)) + (port.arlen + 1) * ENGINE.beat_bytes <= PAGE_BYTES),
                "no burst crosses 4 KB",
            ),
            Assert(
                (1 << port.arsize == ENGINE.beat_bytes) & (port.arburst == BURST_INCR),
                "full beats, incrementing",
            ),
        ]
        self._reservation(m, dut, memory)
        aborted = before(m, port.abort, "aborted")
        waited = before(m, port.arvalid & ~port.arready, "waited")
        m.d.comb += Assert(~aborted | ~port.arvalid | waited, "no new burst after abort")

    def _callers(self, m, dut):
        """Commands and runs as the channel sends them."""
        port, runs = dut.component, dut.part("runs")
        command = port.commands.p
        for name in ("pointer", "io_pointer"):
            value = getattr(port, name)
            m.d.comb += [value.eq(AnyConst(64)), Assume((value & (PAGE_BYTES - 1)) == 0)]
        assume_holds(m, port.commands.valid, port.commands.ready, command, "commands hold")
        assume_holds(m, port.kv_runs.valid, port.kv_runs.ready, port.kv_runs.p, "KV runs hold")
        m.d.comb += [
            Assume((command.work != Work.MATRIX) | (command.beats != 0)),
            Assume(port.kv_runs.p.beats != 0),
        ]
        ahead = Signal(4)  # KV commands that no fence was passed for
        m.d.sync += ahead.eq(ahead + port.kv_issued - runs.component.fenced)
        m.d.comb += Assume(~port.kv_issued | (ahead < KV_AHEAD))
        self.invariant(
            m, ahead == dut.signal("waiting") + runs.signal("credits"), "KV commands await a fence"
        )
        self.invariant(m, ahead <= KV_AHEAD, "KV commands ahead")
        # What the mergers' proof assumes of their inputs.
        run = runs.component.runs
        holds(m, run.valid, run.ready, run.p, "runs hold until ready")
        m.d.comb += Assert(~run.valid | (run.p.beats != 0), "no run is empty")
        output = runs.part("output")
        self.invariant(
            m,
            ~output.signal("waits") | (data.View(RUN, output.signal("spare")).beats != 0),
            "no run that waits is empty",
        )
        busy = ~runs.ongoing("COMMAND")
        rows = (command.work == Work.MATRIX) & ~command.stream
        self.invariant(m, ~busy | port.commands.valid, "a command in work waits")
        self.invariant(m, ~runs.ongoing("ROWS") | rows, "rows belong to a matrix")

    def _reservation(self, m, dut, memory):
        """Beats asked for, and where they are."""
        port, tags, fifo = dut.component, dut.part("tags"), dut.part("fifo")
        credit, kv_flying, beat = dut.signal("credit"), dut.signal("kv_flying"), dut.signal("beat")
        head, level = tags.component.o.p, tags.component.level
        main, kv = dut.part("merger").component.o, dut.part("kv_merger").component.o
        main_go, kv_go, taken = dut.signal("main_go"), dut.signal("kv_go"), port.rvalid & port.rready
        # Beats on the way, counted here.
        weights, others = Signal(16), Signal(16)
        m.d.sync += [
            weights.eq(weights + Mux(main_go, main.p.beats, 0) - (taken & ~head.kv)),
            others.eq(others + Mux(kv_go, kv.p.beats, 0) - (taken & head.kv)),
        ]
        fencing = dut.part("runs").component.fencing
        m.d.comb += [
            Assert(
                weights + fifo.component.level <= ENGINE.read_beats,
                "weight beats on the way fit the read FIFO",
            ),
            Assert(~port.rvalid | head.kv | port.rready, "a weight beat never waits"),
            Assert(
                ~kv_go | fencing | (others + kv.p.beats <= ENGINE.kv_inflight),
                "KV beats on the way keep their limit",
            ),
            Assert(~port.quiet | (memory.owed == 0) & ~port.arvalid, "quiet when every beat was taken"),
            Assert(port.quiet | port.arvalid | (memory.owed != 0), "beats to come are not quiet"),
        ]
        # Why: every tag stands for its beats, and the memory knows the same bursts.
        rows = [queue_word(tags, place) for place in range(TAGS)]
        used = [place < level for place in range(TAGS)]
        sums = {
            wanted: sum(Mux(there & (row.kv == wanted), row.beats, 0) for there, row in zip(used, rows))
            - Mux(tags.component.o.valid & (head.kv == wanted), beat, 0)
            for wanted in (0, 1)
        }
        asked, lengths = memory.asked.component, [queue_word(memory.asked, place) for place in range(TAGS)]
        self.invariant(m, queue_invariant(tags) & queue_invariant(fifo), "queues agree")
        self.invariant(m, weights == sums[0], "weight beats on the way belong to tags")
        self.invariant(m, (others == sums[1]) & (kv_flying == others), "KV beats on the way belong to tags")
        self.invariant(
            m, credit + fifo.component.level + weights == ENGINE.read_beats, "credit is what is left"
        )
        legal_rows = (
            sum((there & ((row.beats == 0) | (row.beats > MAX_BURST))) for there, row in zip(used, rows)) == 0
        )
        self.invariant(
            m,
            legal_rows
            & (~tags.component.o.valid | (beat < head.beats))
            & (tags.component.o.valid | (beat == 0)),
            "tags are legal",
        )
        self.invariant(m, memory.sent == beat, "beats of the burst")
        self.invariant(
            m, (asked.level + port.arvalid == level) & queue_invariant(memory.asked), "a tag a burst"
        )
        same = [
            (place >= asked.level) | (length + 1 == row.beats)
            for place, (length, row) in enumerate(zip(lengths, rows))
        ]
        self.invariant(m, Cat(same).all(), "tags have the bursts' lengths")
        self.invariant(
            m,
            ~port.arvalid | (port.arlen + 1 == queue_word(tags, asked.level).beats),
            "the burst on AR has a tag",
        )
        self.invariant(
            m,
            memory.owed == weights + others - Mux(port.arvalid, port.arlen + 1, 0),
            "the memory owes what is on the way",
        )
        most = Signal(range(TAGS + 1))
        with m.If(level > most):
            m.d.sync += most.eq(level)
        m.d.comb += [
            Cover((most == TAGS) & port.quiet & ~port.abort, "all tags in use, then quiet"),
            Cover(credit == 0, "no credit left"),
            Cover(
                dut.part("merger").component.o.valid & (credit < main.p.beats) & kv_go,
                "a KV burst goes while weights have no credit",
            ),
            Cover(port.rvalid & ~port.rready, "a KV beat waits"),
        ]


PROOFS = [ReadMaster]


def _no_credit(dut):
    """Weights go whatever the read FIFO holds."""
    dut.module.d.comb += dut.signal("weights").eq(dut.part("merger").component.o.valid)


def _fickle(dut):
    """A burst is given up when the memory does not take it at once."""
    dut.module.d.sync += dut.component.arvalid.eq(dut.signal("main_go") | dut.signal("kv_go"))


def _long(dut):
    with dut.module.If(dut.signal("main_go")):
        dut.module.d.sync += dut.component.arlen.eq(MAX_BURST)


def _wrong_address(dut):
    """Addresses count from a pointer that is off by a beat."""
    with dut.module.If(dut.signal("main_go")):
        dut.module.d.sync += dut.component.araddr.eq(
            dut.component.pointer + ((dut.part("merger").component.o.p.address + 1) << 4)
        )


def _shy(dut):
    """R waits while the lanes do not take beats."""
    dut.module.d.comb += dut.component.rready.eq(
        dut.part("tags").component.o.valid & dut.component.beats.ready
    )


def _early_quiet(dut):
    dut.module.d.comb += dut.component.quiet.eq(~dut.component.arvalid)


ReadMaster.broken = {
    "forgets the size of the read FIFO": (_no_credit, "weight beats on the way fit the read FIFO"),
    "gives up a burst that waits": (_fickle, "AR holds until ready"),
    "asks for 17 beats": (_long, "a burst has 1 to 16 beats"),
    "addresses off by a beat": (_wrong_address, "no burst crosses 4 KB"),
    "R waits for the lanes": (_shy, "a weight beat never waits"),
    "quiet while beats are on the way": (_early_quiet, "quiet when every beat was taken"),
}
ReadMaster.broken_bmc = 22
