"""hw.channel.burst.BurstMerger: legal bursts, and the same beats in the same order."""

from unittest.mock import patch

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import data
from opened import Opened, drive_freely
from proof import AnySeq, Proof, assume_holds, before, holds
from proofs_queue import queue_invariant, queue_word

from symlight.hw.axi import MAX_BURST, PAGE_BYTES
from symlight.hw.channel import burst
from symlight.hw.channel.burst import BurstMerger
from symlight.hw.config import Engine
from symlight.hw.types import BEAT_ADDRESS


def legal(burst, page: int):
    """1 to 16 beats, not across `page` beats."""
    return (
        (burst.beats != 0) & (burst.beats <= MAX_BURST) & ((burst.address & (page - 1)) + burst.beats <= page)
    )


def held_beats(dut: Opened):
    """Beats of the run that an opened merger holds."""
    return Mux(dut.signal("holds"), dut.signal("excess") + dut.signal("limit"), 0)


def merger_invariant(dut: Opened, page: int, bits: int):
    """What holds between the registers of an opened merger, and of the bursts behind it."""
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
        & (excess < (1 << bits) + MAX_BURST)
        & (dut.signal("end") == (address + total)[:bits])
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
    bits: int  # of beat addresses and run lengths
    lanes: int  # bytes of a beat
    longest: int  # beats of a run
    order = True  # follow a marked beat
    cover = 12

    def component(self):
        return BurstMerger(Engine(channels=2, lanes=self.lanes))

    def reduced(self):
        layouts = {
            name: data.StructLayout({"address": self.bits, "beats": min(self.bits, old["beats"].width)})
            for name, old in (("RUN", burst.RUN), ("BURST", burst.BURST))
        }
        return patch.multiple(burst, BEAT_ADDRESS=self.bits, **layouts)

    def claim(self, m: Module, dut: Opened):
        merger = dut.component
        page = PAGE_BYTES // self.lanes
        drive_freely(m, merger)
        run, out = merger.i.p, merger.o.p
        assume_holds(m, merger.i.valid, merger.i.ready, merger.i.p, "runs hold")
        m.d.comb += Assume((run.beats != 0) & (run.beats <= self.longest))
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
        self.invariant(m, merger_invariant(dut, page, self.bits), "registers agree")

        inside = Signal(self.bits + 2)
        m.d.sync += inside.eq(inside + Mux(put, run.beats, 0) - Mux(get, out.beats, 0))
        m.d.comb += [
            Assert(~merger.o.valid | (out.beats <= inside), "no beat comes out that did not go in"),
            Assert(merger.idle == (inside == 0), "idle when every beat has left"),
        ]
        self.invariant(m, inside == merged_beats(dut), "beats inside are held or in the queue")

        if not self.order:
            return
        # The first or last beat of any run is marked when it goes in; `ahead` beats leave before it.
        marked, ahead, place, offset = Signal(), Signal(self.bits + 2), Signal(self.bits), Signal(self.bits)
        m.d.comb += [offset.eq(AnySeq(self.bits)), Assume((offset == 0) | (offset == run.beats - 1))]
        leaves = marked & get & (ahead < out.beats)
        with m.If(~marked & put & AnySeq(1)):
            m.d.sync += [
                marked.eq(1),
                place.eq(run.address + offset),
                ahead.eq(inside + offset - Mux(get, out.beats, 0)),
            ]
        with m.If(marked & get):
            m.d.sync += ahead.eq(ahead - out.beats)
        with m.If(leaves):
            m.d.sync += marked.eq(0)
            m.d.comb += Assert((out.address + ahead)[: self.bits] == place, "beats leave in order")
        queue = dut.part("queue")
        self.invariant(
            m, ~marked | self._in_place(dut, queue, ahead, place), "a marked beat is where it should be"
        )
        m.d.comb += [
            Cover(
                leaves & (ahead != 0) & (out.beats == MAX_BURST), "a marked beat leaves within a full burst"
            ),
            Cover(get & (out.beats == 3) & (((out.address + 3) & (page - 1)) == 0), "a burst is cut at 4 KB"),
            Cover(
                before(m, put & dut.signal("continues") & dut.signal("emit"), "merged"),
                "a run is merged while a burst leaves",
            ),
            Cover(queue.component.level == 2, "both bursts wait"),
        ]

    def _in_place(self, dut, queue, ahead, place):
        level, first, second = queue.component.level, queue_word(queue, 0), queue_word(queue, 1)
        one, two = Mux(level > 0, first.beats, 0), Mux(level > 1, second.beats, 0)
        return Mux(
            ahead < one,
            (first.address + ahead)[: self.bits] == place,
            Mux(
                ahead < one + two,
                (second.address + ahead - one)[: self.bits] == place,
                (ahead < one + two + held_beats(dut))
                & ((dut.signal("address") + ahead - one - two)[: self.bits] == place),
            ),
        )


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


_Merger.broken = {
    "ignores pages": (_ignores_pages, "no burst crosses 4 KB"),
    "sends 17 beats": (_long_burst, "a burst has 1 to 16 beats"),
    "merges runs that are no continuation": (_merges_anything, "beats leave in order"),
    "idle too early": (_early_idle, "idle when every beat has left"),
    "drops a burst that waits": (
        lambda dut: dut.part("queue").module.d.comb.__iadd__(
            dut.part("queue").component.o.valid.eq(dut.component.o.ready)
        ),
        "bursts hold until ready",
    ),
}


class Bursts(_Merger):
    title = (
        "BurstMerger (64-byte beats, 7-bit addresses, runs of up to 20 beats): "
        "bursts of 1 to 16 beats within 4 KB; every beat once, in order; output holds"
    )
    bits, lanes, longest = 7, 64, 20
    bmc = 5


class WideBursts(_Merger):
    title = (
        "BurstMerger (32-byte beats, all 24 bits): bursts of 1 to 16 beats within 4 KB; no beat lost or "
        "added; output holds"
    )
    bits, lanes, longest, order = BEAT_ADDRESS, 32, (1 << BEAT_ADDRESS) - 1, False
    bmc, induction = 4, 1
    broken = {}


PROOFS = [Bursts, WideBursts]
