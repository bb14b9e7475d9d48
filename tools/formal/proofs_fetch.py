"""hw.channel.fetch.Fetch: the AXI read master of a channel, against any memory that keeps the AXI rules."""

from unittest.mock import patch

from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal

from symlight.hw.axi import BURST_INCR, MAX_BURST, PAGE_BYTES
from symlight.hw.channel import fetch, receive
from symlight.hw.channel.fetch import Fetch
from symlight.hw.channel.receive import KV_SLACK, KV_WAITING
from symlight.hw.config import Engine
from symlight.hw.lib.queue import Queue
from symlight.hw.types import Work

from .opened import Opened, drive_freely
from .proof import AnyConst, Proof, assume_holds, before, holds
from .proofs_burst import legal, slice_invariant, slice_words
from .proofs_queue import queue_invariant, queue_word

TAGS = 4  # places for bursts in flight, of 64: with the sum over them the proof grows
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

    def __init__(self, m: Module, bus, bursts: int):
        queue = Queue(8, depth=bursts)
        self.asked = Opened(queue)
        m.submodules.asked = self.asked.module
        self.sent, self.owed = Signal(8), Signal(16)
        accepts, sends = bus.arvalid & bus.arready, bus.rvalid & bus.rready
        m.d.comb += [
            queue.i.valid.eq(accepts),
            queue.i.p.eq(bus.arlen),
            queue.o.ready.eq(sends & bus.rlast),
            Assume(~bus.rvalid | queue.o.valid),
            Assume(bus.rlast == (self.sent == queue.o.p)),
        ]
        assume_holds(
            m,
            bus.rvalid,
            bus.rready,
            Cat(bus.rdata, bus.rresp, bus.rlast),
            "R holds",
        )
        with m.If(sends):
            m.d.sync += self.sent.eq(Mux(bus.rlast, 0, self.sent + 1))
        m.d.sync += self.owed.eq(self.owed + Mux(accepts, bus.arlen + 1, 0) - sends)
        m.d.comb += Assert(~accepts | queue.i.ready, "no more bursts in flight than tags")


class ReadMaster(Proof):
    title = (
        f"Fetch ({ENGINE.lanes}-byte beats, read FIFO {ENGINE.read_beats}, {TAGS} tags): AR holds; "
        "bursts of 1 to 16 beats within 4 KB; "
        "beats asked for fit the read FIFO, so R waits behind KV beats only; every beat is taken"
    )
    # The induction lacks an invariant of the picked rows of the head: bounded only, for now.
    bmc, induction, cover = 8, None, 24
    assumed = ("dut.merger", "dut.kv_merger")  # proofs_burst

    def component(self):
        return Fetch(ENGINE)

    def reduced(self):
        return patch.multiple(receive, TAGS=TAGS)

    def claim(self, m: Module, dut: Opened):
        port = dut.component
        bus = port.bus
        page = PAGE_BYTES // ENGINE.beat_bytes
        drive_freely(m, port, but=("pointer", "io_pointer"))
        self._callers(m, dut)
        memory = Memory(m, bus, TAGS)
        for name in ("merger", "kv_merger"):
            burst = dut.part(name).component.o
            m.d.comb += Assume(  # proofs_burst
                ~burst.valid | (legal(burst.p, page) & (burst.p.less_one + 1 == burst.p.beats))
            )

        payload = Cat(bus.araddr, bus.arlen)
        holds(m, bus.arvalid, bus.arready, payload, "AR holds until ready")
        holds(m, port.beats.valid, port.beats.ready, port.beats.p, "beats hold until ready")
        holds(m, port.kv.valid, port.kv.ready, port.kv.p, "KV beats hold until ready", unless=port.abort)
        m.d.comb += [
            Assert(~bus.arvalid | (bus.arlen < MAX_BURST), "a burst has 1 to 16 beats"),
            Assert(
                ~bus.arvalid
                | ((bus.araddr & (PAGE_BYTES - 1)) + (bus.arlen + 1) * ENGINE.beat_bytes <= PAGE_BYTES),
                "no burst crosses 4 KB",
            ),
            Assert(
                (1 << bus.arsize == ENGINE.beat_bytes) & (bus.arburst == BURST_INCR),
                "full beats, incrementing",
            ),
        ]
        self._reservation(m, dut, memory)
        aborted = before(m, port.abort, "aborted")
        output = dut.part("output")
        m.d.comb += Assert(
            ~aborted | ~before(m, output.component.i.valid, "decided"), "no new burst after abort"
        )

    def _callers(self, m, dut):
        """Commands and runs as the channel sends them."""
        port, runs = dut.component, dut.part("runs")
        command = port.commands.p
        for name in ("pointer", "io_pointer"):
            value = getattr(port, name)
            m.d.comb += [value.eq(AnyConst(64)), Assume((value & (PAGE_BYTES - 1)) == 0)]
        assume_holds(m, port.commands.valid, port.commands.ready, command, "commands hold")
        assume_holds(m, port.kv_runs.valid, port.kv_runs.ready, port.kv_runs.p, "KV runs hold")
        # Matrices, and the head by active row; the compiler gives a row at least a beat.
        rows = (command.work == Work.MATRIX) | ((command.work == Work.HEAD) & ~command.stream)
        m.d.comb += [
            Assume(~rows | (command.beats != 0)),
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
        busy = ~runs.ongoing("COMMAND")
        rows = ((command.work == Work.MATRIX) | (command.work == Work.HEAD)) & ~command.stream
        self.invariant(m, ~busy | port.commands.valid, "a command in work waits")
        self.invariant(m, ~runs.ongoing("ROWS") | rows, "rows belong to a matrix")

    def _reservation(self, m, dut, memory):
        """Beats asked for, and where they are."""
        port, receiver = dut.component, dut.part("receiver")
        bus = port.bus
        tags, fifo, kv_queue = (receiver.part(name) for name in ("tags", "fifo", "kv_queue"))
        credit, kv_flying, beat = dut.signal("credit"), dut.signal("kv_flying"), receiver.signal("beat")
        head, level = tags.component.oldest, tags.signal("used")
        read = tags.memory().read_ports[0].addr
        main, kv = dut.part("merger").component.o, dut.part("kv_merger").component.o
        main_go, kv_go, taken = dut.signal("main_go"), dut.signal("kv_go"), bus.rvalid & bus.rready
        # Beats on the way, counted here.
        weights, others = Signal(16), Signal(16)
        m.d.sync += [
            weights.eq(weights + Mux(main_go, main.p.beats, 0) - (taken & ~head.kv)),
            others.eq(others + Mux(kv_go, kv.p.beats, 0) - (taken & head.kv)),
        ]
        fencing = dut.part("runs").component.fencing
        m.d.comb += [
            Assert(
                weights + fifo.component.level + fifo.signal("fresh") <= ENGINE.read_beats,
                "weight beats on the way fit the read FIFO",
            ),
            Assert(
                bus.rready | before(m, kv_queue.component.level > KV_WAITING - KV_SLACK, "crowded", init=1),
                "R waits behind KV beats only",
            ),
            Assert(
                ~kv_go | fencing | (others + kv.p.beats <= ENGINE.kv_inflight),
                "KV beats on the way keep their limit",
            ),
            Assert(~port.quiet | (memory.owed == 0) & ~bus.arvalid, "quiet when every beat was taken"),
            Assert(
                port.quiet | bus.arvalid | (memory.owed != 0) | before(m, taken, "taken_before"),
                "beats to come are not quiet",
            ),
        ]
        # Why: every tag stands for its beats, and the memory knows the same bursts.
        rows = [tags.row((read + place)[: len(read)]) for place in range(TAGS)]
        used = [place < level for place in range(TAGS)]
        output = dut.part("output")
        sums = {
            wanted: sum(Mux(there & (row.kv == wanted), row.beats, 0) for there, row in zip(used, rows))
            - Mux((level != 0) & (head.kv == wanted), beat, 0)
            for wanted in (0, 1)
        }
        asked, lengths = memory.asked.component, [queue_word(memory.asked, place) for place in range(TAGS)]
        self.invariant(m, queue_invariant(fifo) & queue_invariant(kv_queue), "queues agree")
        self.invariant(m, (level < TAGS - 1) | ~tags.component.i.ready, "tags have room")
        self.invariant(m, weights == sums[0], "weight beats on the way belong to tags")
        self.invariant(
            m,
            (others == sums[1]) & (kv_flying == others + receiver.component.kv_taken),
            "KV beats on the way belong to tags",
        )
        self.invariant(
            m,
            credit + receiver.component.freed + fifo.component.level + fifo.signal("fresh") + weights
            == ENGINE.read_beats,
            "credit is what is left",
        )
        self.invariant(m, dut.signal("plenty") == (credit >= MAX_BURST), "enough for any burst")
        self.invariant(
            m,
            ~dut.signal("within") | (kv_flying <= ENGINE.kv_inflight - MAX_BURST),
            "another KV burst keeps the limit",
        )
        # RREADY is a cycle late: what may come until it falls has room.
        self.invariant(
            m,
            kv_queue.component.level + kv_queue.signal("fresh") + bus.rready <= KV_WAITING,
            "KV beats have room",
        )
        legal_rows = (
            sum((there & ((row.beats == 0) | (row.beats > MAX_BURST))) for there, row in zip(used, rows)) == 0
        )
        self.invariant(
            m,
            legal_rows & ((level == 0) | (beat < head.beats)) & ((level != 0) | (beat == 0)),
            "tags are legal",
        )
        self.invariant(m, memory.sent == beat, "beats of the burst")
        self.invariant(
            m,
            (asked.level + bus.arvalid + output.signal("waits") == level)
            & slice_invariant(output)
            & queue_invariant(memory.asked),
            "a tag a burst",
        )
        same = [
            (place >= asked.level) | (length + 1 == row.beats)
            for place, (length, row) in enumerate(zip(lengths, rows))
        ]
        self.invariant(m, Cat(same).all(), "tags have the bursts' lengths")
        on_bus, place = 0, read + asked.level
        for (there, burst), which in zip(slice_words(output, fetch.ADDRESSED), ("", " next")):
            tag, end = tags.row(place[: len(read)]), burst.address[:12] + (burst.len + 1) * ENGINE.beat_bytes
            fits = (burst.len + 1 == tag.beats) & (end <= PAGE_BYTES)
            self.invariant(m, ~there | fits, f"the burst on AR{which} has a tag")
            on_bus, place = on_bus + Mux(there, burst.len + 1, 0), place + 1
        self.invariant(m, memory.owed == weights + others - on_bus, "the memory owes what is on the way")
        most = Signal(range(TAGS + 1))
        with m.If(level > most):
            m.d.sync += most.eq(level)
        m.d.comb += [
            Cover((most == TAGS - 1) & port.quiet & ~port.abort, "all tags in use, then quiet"),
            Cover(credit == 0, "no credit left"),
            Cover(
                dut.part("merger").component.o.valid & ~dut.signal("plenty") & kv_go,
                "a KV burst goes while weights have no credit",
            ),
            Cover(kv_queue.component.o.valid & ~port.kv.ready, "a KV beat waits"),
        ]


PROOFS = [ReadMaster]


def _no_credit(dut):
    """Weights go whatever the read FIFO holds."""
    dut.module.d.comb += dut.signal("weights").eq(dut.part("merger").component.o.valid)


def _fickle(dut):
    """A burst is given up when the memory does not take it at once."""
    dut.module.d.comb += dut.part("output").component.o.ready.eq(1)


def _long(dut):
    dut.module.d.comb += dut.part("output").component.i.p.len.eq(MAX_BURST)


def _wrong_address(dut):
    """Addresses count from a pointer that is off by a beat."""
    dut.module.d.comb += dut.part("output").component.i.p.address.eq(
        dut.component.pointer + ((dut.part("merger").component.o.p.address + 1) << 4)
    )


def _shy(dut):
    """R waits while the lanes do not take beats."""
    receiver = dut.part("receiver")
    receiver.module.d.sync += receiver.component.rready.eq(dut.component.beats.ready)


def _early_quiet(dut):
    dut.module.d.comb += dut.component.quiet.eq(~dut.component.bus.arvalid)


ReadMaster.broken = {
    "forgets the size of the read FIFO": (_no_credit, "weight beats on the way fit the read FIFO"),
    "gives up a burst that waits": (_fickle, "AR holds until ready"),
    "asks for 17 beats": (_long, "a burst has 1 to 16 beats"),
    "addresses off by a beat": (_wrong_address, "no burst crosses 4 KB"),
    "R waits for the lanes": (_shy, "R waits behind KV beats only"),
    "quiet while beats are on the way": (_early_quiet, "quiet when every beat was taken"),
}
ReadMaster.broken_bmc = 22
