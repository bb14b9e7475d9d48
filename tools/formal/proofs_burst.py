"""hw.channel.burst.BurstMerger: legal bursts, and the same beats in the same order."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import data

from symlight.hw.axi import MAX_BURST, PAGE_BYTES
from symlight.hw.channel.burst import _ENTERED, BURST, BurstMerger
from symlight.hw.config import Engine
from symlight.hw.types import BEAT_ADDRESS

from .opened import Opened, drive_freely
from .proof import AnyConst, Proof, assume_holds, before, holds

LANES = 32


def legal(burst, page: int):
    """1 to 16 beats, not across `page` beats."""
    return (
        (burst.beats != 0) & (burst.beats <= MAX_BURST) & ((burst.address & (page - 1)) + burst.beats <= page)
    )


def slice_words(dut: Opened, shape):
    """(there, word) of the two places of an opened register slice, oldest first."""
    out, spare = dut.component.o, data.View(shape, dut.signal("spare"))
    return [(out.valid, out.p), (dut.signal("waits"), spare)]


def slice_invariant(dut: Opened):
    """A word waits only behind another one."""
    return ~dut.signal("waits") | dut.component.o.valid


def held_beats(dut: Opened):
    """Beats of the run that an opened merger holds."""
    return Mux(dut.signal("holds"), dut.signal("excess") + dut.signal("limit"), 0)


def _longest(address, page: int):
    """Beats of the longest burst at `address`."""
    room = page - (address & (page - 1))
    return Mux(room < MAX_BURST, room, MAX_BURST)


def equal(one, other):
    """Equality of addresses by a carry, as the merger compares them: a solver need not find out that both
    ways are the same."""
    return ~((one ^ other) + ((1 << BEAT_ADDRESS) - 1))[BEAT_ADDRESS]


def merger_invariant(dut: Opened, page: int):
    """What holds between registers, runs and bursts of an opened merger."""
    address, limit, excess, total = (
        dut.signal("address"),
        dut.signal("limit"),
        dut.signal("excess"),
        held_beats(dut),
    )
    run = (
        (limit == _longest(address, page))
        & (total > 0)
        & (excess < (1 << BEAT_ADDRESS) + MAX_BURST)
        & ((excess >= 0) | (dut.signal("beats") == total))
    )
    holds = ~dut.signal("holds") | run
    for name in ("entry", "queue"):
        holds &= slice_invariant(dut.part(name))
    for there, burst in slice_words(dut.part("queue"), BURST):
        holds &= ~there | (legal(burst, page) & (burst.less_one + 1 == burst.beats))
    # Each run knows whether it goes on where the one before it ends.
    end, before_it = (address + total)[:BEAT_ADDRESS], dut.signal("holds")
    for there, entered in slice_words(dut.part("entry"), _ENTERED):
        run = entered.run
        known = (run.beats != 0) & (entered.limit == _longest(run.address, page))
        known &= ~before_it | (entered.follows == equal(run.address, end))
        holds &= ~there | known
        end, before_it = Mux(there, (run.address + run.beats)[:BEAT_ADDRESS], end), there | before_it
    return holds & (~before_it | (dut.signal("end") == end))


def merged_beats(dut: Opened):
    """Beats inside an opened merger: of runs at its entrance, of the held run, and of bursts behind it."""
    entered = [Mux(there, word.run.beats, 0) for there, word in slice_words(dut.part("entry"), _ENTERED)]
    bursts = [Mux(there, burst.beats, 0) for there, burst in slice_words(dut.part("queue"), BURST)]
    return sum(entered), held_beats(dut), sum(bursts)


class _Merger(Proof):
    bmc, cover = 4, 12
    induction: int | None = 1

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
                before(m, dut.signal("continues") & dut.signal("emit"), "merged"),
                "a run is merged while a burst leaves",
            ),
            Cover(dut.part("queue").signal("waits"), "both bursts wait"),
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
        inside = Signal(BEAT_ADDRESS + 3)
        m.d.sync += inside.eq(inside + Mux(put, run.beats, 0) - Mux(get, out.beats, 0))
        m.d.comb += [
            Assert(~merger.o.valid | (out.beats <= inside), "no beat comes out that did not go in"),
            Assert(merger.idle == (inside == 0), "idle when every beat has left"),
        ]
        # Place by place: a solver finds a long sum hard.
        entry, queue = dut.part("entry").component, dut.part("queue").component
        moved = Mux(entry.o.valid & entry.o.ready, entry.o.p.run.beats, 0)
        sent = Mux(queue.i.valid & queue.i.ready, queue.i.p.beats, 0)
        entered, held, left = (Signal.like(inside, name=name) for name in ("entered", "held", "left"))
        m.d.sync += [
            entered.eq(entered + Mux(put, run.beats, 0) - moved),
            held.eq(held + moved - sent),
            left.eq(left + sent - Mux(get, out.beats, 0)),
        ]
        names, counts = ("at the entrance", "held", "in bursts"), (entered, held, left)
        for name, count, beats in zip(names, counts, merged_beats(dut)):
            self.invariant(m, count == beats, f"beats {name}")
        self.invariant(m, inside == sum(counts)[: len(inside)], "beats inside are in one of three places")


class Addresses(_Merger):
    """Any address is watched: it came with a run, and left with a burst."""

    title = (
        "BurstMerger (32-byte beats, 24-bit addresses): every address that goes in has come out when "
        "idle, and no other comes out"
    )
    # Wide comparisons of any two addresses: the induction does not end within minutes.
    bmc, induction = 6, None

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
        here = (watched - dut.signal("address"))[:BEAT_ADDRESS] < held_beats(dut)
        for there, entered in slice_words(dut.part("entry"), _ENTERED):
            here |= there & _covers(entered.run, watched)
        for there, burst in slice_words(dut.part("queue"), BURST):
            here |= there & _covers(burst, watched)
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
    dut.module.d.comb += dut.signal("continues").eq(
        dut.part("entry").component.o.valid & dut.signal("excess")[-1]
    )


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
