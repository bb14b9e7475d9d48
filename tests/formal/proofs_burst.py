"""hw.channel.burst.BurstMerger: legal bursts, and the same beats in the same order."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from opened import Opened, drive_freely
from proof import AnyConst, Proof, assume_holds, before, holds
from proofs_queue import queue_invariant, queue_word

from symlight.hw.axi import MAX_BURST, PAGE_BYTES
from symlight.hw.channel.burst import BurstMerger
from symlight.hw.config import Engine
from symlight.hw.types import BEAT_ADDRESS

LANES = 32


def legal(burst, page: int):
    """1 to 16 beats, not across `page` beats."""
    return (
        (burst.beats != 0) & (burst.beats <= MAX_BURST) & ((burst.address & (page - 1)) + burst.beats <= page)
    )


def held_beats(dut: Opened):
    """Beats of the run that an opened merger holds."""
    return Mux(dut.signal("holds"), dut.signal("excess") + dut.signal("limit"), 0)


def merger_invariant(dut: Opened, page: int):
    """What holds between registers and bursts of an opened merger."""
    address, limit, excess, total = (
        dut.signal("address"),
        dut.signal("limit"),
        dut.signal("excess"),
        held_beats(dut),
    )
    room = page - (address & (page - 1))
    queue = dut.part("queue")
    level = queue.component.level
    run = (
        (limit == Mux(room < MAX_BURST, room, MAX_BURST))
        & (total > 0)
        & (excess < (1 << BEAT_ADDRESS) + MAX_BURST)
        & (dut.signal("end") == (address + total)[:BEAT_ADDRESS])
        & ((excess >= 0) | (dut.signal("beats") == total))
    )
    first, second = queue_word(queue, 0), queue_word(queue, 1)
    return (
        (~dut.signal("holds") | run)
        & queue_invariant(queue)
        & ((level == 0) | legal(first, page))
        & ((level < 2) | legal(second, page))
    )


def merged_beats(dut: Opened):
    """Beats inside an opened merger: of the held run, and of the bursts behind it."""
    queue = dut.part("queue")
    first, second = queue_word(queue, 0), queue_word(queue, 1)
    level = queue.component.level
    return held_beats(dut) + Mux(level > 0, first.beats, 0) + Mux(level > 1, second.beats, 0)


class _Merger(Proof):
    bmc, induction, cover = 4, 1, 12

    def component(self):
        return BurstMerger(Engine(channels=2, lanes=LANES))

    def claim(self, m: Module, dut: Opened):
        merger = dut.component
        page = PAGE_BYTES // LANES
        drive_freely(m, merger)
        run, out = merger.i.p, merger.o.p
        assume_holds(m, merger.i.valid, merger.i.ready, merger.i.p, "runs hold")
        m.d.comb += Assume(run.beats != 0)
        put, get = merger.i.valid & merger.i.ready, merger.o.valid & merger.o.ready

        holds(m, merger.o.valid, merger.o.ready, merger.o.p, "bursts hold until ready")
        m.d.comb += [
            Assert(
                ~merger.o.valid | ((out.beats != 0) & (out.beats <= MAX_BURST)), "a burst has 1 to 16 beats"
            ),
            Assert(
                ~merger.o.valid | ((out.address & (page - 1)) + out.beats <= page), "no burst crosses 4 KB"
            ),
        ]
        self.invariant(m, merger_invariant(dut, page), "registers agree")
        self.follow(m, dut, put, get)
        m.d.comb += [
            Cover(get & (out.beats == MAX_BURST), "a full burst leaves"),
            Cover(get & (out.beats == 3) & (((out.address + 3) & (page - 1)) == 0), "a burst is cut at 4 KB"),
            Cover(
                before(m, put & dut.signal("continues") & dut.signal("emit"), "merged"),
                "a run is merged while a burst leaves",
            ),
            Cover(dut.part("queue").component.level == 2, "both bursts wait"),
        ]

    def follow(self, m, dut, put, get):
        """Claims about what goes in and comes out."""
        raise NotImplementedError


class Bursts(_Merger):
    title = (
        "BurstMerger (32-byte beats, 24-bit addresses): bursts of 1 to 16 beats within 4 KB; no beat lost "
        "or added; output holds"
    )

    def follow(self, m, dut, put, get):
        merger = dut.component
        run, out = merger.i.p, merger.o.p
        inside = Signal(BEAT_ADDRESS + 2)
        m.d.sync += inside.eq(inside + Mux(put, run.beats, 0) - Mux(get, out.beats, 0))
        m.d.comb += [
            Assert(~merger.o.valid | (out.beats <= inside), "no beat comes out that did not go in"),
            Assert(merger.idle == (inside == 0), "idle when every beat has left"),
        ]
        self.invariant(m, inside == merged_beats(dut), "beats inside are held or in the queue")


class Addresses(_Merger):
    """Any address is watched: it came with a run, and left with a burst."""

    title = (
        "BurstMerger (32-byte beats, 24-bit addresses): every address that goes in has come out when "
        "idle, and no other comes out"
    )

    def follow(self, m, dut, put, get):
        merger = dut.component
        run, out = merger.i.p, merger.o.p
        watched, came, left = AnyConst(BEAT_ADDRESS), Signal(), Signal()
        with m.If(put & _covers(run, watched)):
            m.d.sync += came.eq(1)
        with m.If(get & _covers(out, watched)):
            m.d.sync += left.eq(1)
        m.d.comb += [
            Assert(
                ~merger.o.valid | ~_covers(out, watched) | came, "no address comes out that did not go in"
            ),
            Assert(~merger.idle | ~came | left, "every address that went in has left when idle"),
        ]
        queue = dut.part("queue")
        first, second = queue_word(queue, 0), queue_word(queue, 1)
        held = (watched - dut.signal("address"))[:BEAT_ADDRESS] < held_beats(dut)
        here = (
            held
            | ((queue.component.level > 0) & _covers(first, watched))
            | ((queue.component.level > 1) & _covers(second, watched))
        )
        self.invariant(m, (~here | came) & (~came | left | here), "an address that came is here or has left")


def _covers(piece, address):
    """Whether a run or burst holds `address`."""
    return (address - piece.address)[:BEAT_ADDRESS] < piece.beats


def _ignores_pages(dut):
    """The first burst of a run may be full wherever it starts."""
    dut.module.d.comb += dut.part("queue").component.i.p.beats.eq(
        Mux(dut.signal("full"), MAX_BURST, dut.signal("beats"))
    )


def _long_burst(dut):
    dut.module.d.comb += dut.part("queue").component.i.p.beats.eq(
        Mux(dut.signal("full"), dut.signal("limit"), 17)
    )


def _merges_anything(dut):
    """A run is taken for a continuation wherever it starts."""
    dut.module.d.comb += dut.signal("continues").eq(dut.component.i.valid & dut.signal("excess")[-1])


def _early_idle(dut):
    dut.module.d.comb += dut.component.idle.eq(~dut.signal("holds"))


def _drops_burst(dut):
    """A burst is offered only in the cycle in which it can go, at times."""
    clock = Signal(2, name="clock")
    dut.module.d.sync += clock.eq(clock + 1)
    with dut.module.If(clock == 0):
        dut.module.d.comb += dut.component.o.valid.eq(0)


Bursts.broken = {
    "ignores pages": (_ignores_pages, "no burst crosses 4 KB"),
    "sends 17 beats": (_long_burst, "a burst has 1 to 16 beats"),
    "idle too early": (_early_idle, "idle when every beat has left"),
    "drops a burst that waits": (_drops_burst, "bursts hold until ready"),
}
Addresses.broken = {
    "merges runs that are no continuation": (_merges_anything, "no address comes out that did not go in"),
    "idle too early": (_early_idle, "every address that went in has left when idle"),
}

PROOFS = [Bursts, Addresses]
