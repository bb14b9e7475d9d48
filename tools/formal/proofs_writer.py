"""hw.channel.writer.Writer: the AXI write master of a channel, against any memory that keeps AXI's rules."""

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal, Value

from symlight.hw.axi import BURST_INCR, FAULT_BITS, PAGE_BYTES, byte_address
from symlight.hw.channel.writer import DEPTH, OUTSTANDING, Writer
from symlight.hw.config import Engine

from .opened import Opened, drive_freely
from .proof import AnyConst, AnySeq, Proof, assume_holds, before, holds
from .proofs_queue import queue_invariant, queue_word

BEAT = 16  # bytes


class WriteMaster(Proof):
    title = (
        f"Writer ({BEAT}-byte beats, {OUTSTANDING} writes in flight): AW and W hold; "
        "single beats within 4 KB; a word of each for every beat, in order; never more writes in flight than "
        "places for their responses; quiet when all are answered"
    )
    bmc, induction, cover = 5, 3, 12

    def component(self):
        return Writer(Engine(channels=2, lanes=BEAT))

    def claim(self, m: Module, dut: Opened):
        port, queue, places = dut.component, dut.part("queue"), dut.part("places")
        bus = port.bus
        drive_freely(m, port, but=("pointer", "io_pointer"))
        for pointer in (port.pointer, port.io_pointer):
            m.d.comb += [pointer.eq(AnyConst(64)), Assume((pointer & (PAGE_BYTES - 1)) == 0)]
        assume_holds(m, port.i.valid, port.i.ready, port.i.p, "beats hold")
        addressed, written, answered = (
            bus.awvalid & bus.awready,
            bus.wvalid & bus.wready,
            bus.bvalid & bus.bready,
        )

        # Unanswered writes of which the memory has the address, has the word: it answers what it has both of.
        addresses, words = Signal(range(OUTSTANDING + 1)), Signal(range(OUTSTANDING + 1))
        m.d.sync += [addresses.eq(addresses + addressed - answered), words.eq(words + written - answered)]
        m.d.comb += Assume(~bus.bvalid | ((addresses != 0) & (words != 0)))

        holds(m, bus.awvalid, bus.awready, bus.awaddr, "AW holds until ready")
        holds(m, bus.wvalid, bus.wready, bus.wdata, "W holds until ready")
        m.d.comb += [
            Assert((bus.awlen == 0) & bus.wlast & (bus.awburst == BURST_INCR), "single beats"),
            Assert((1 << bus.awsize == BEAT) & bus.wstrb.all(), "full beats"),
            Assert(~bus.awvalid | ((bus.awaddr & (BEAT - 1)) == 0), "no write crosses 4 KB"),
            Assert(
                ~addressed | (addresses < OUTSTANDING) | answered,
                "writes in flight have a place for their response",
            ),
            Assert(
                ~written | (words < OUTSTANDING) | answered, "words in flight have a place for their response"
            ),
            Assert(bus.bready, "responses never wait"),
            Assert(
                ~port.quiet | ((addresses == 0) & (words == 0) & ~bus.awvalid & ~bus.wvalid),
                "quiet when all is answered",
            ),
            Assert(
                port.quiet
                | bus.awvalid
                | bus.wvalid
                | (addresses != 0)
                | (port.level != 0)
                | queue.component.o.valid
                | before(m, answered, "answered_before"),
                "what is not quiet has something to do",
            ),
        ]
        level = places.signal("used")
        self.invariant(m, queue_invariant(queue), "the queue agrees")
        self.invariant(m, (level < OUTSTANDING - 1) | ~places.component.i.ready, "places have room")
        for name, count, waiting in (
            ("addresses", addresses, bus.awvalid),
            ("words", words, bus.wvalid),
        ):
            self.invariant(m, level == count + waiting, f"a place a write of {name}")
        self.invariant(m, (bus.awaddr[:4] == 0) | ~bus.awvalid, "addresses of whole beats")
        self._order(m, dut)
        m.d.comb += [
            Cover(bus.awvalid & ~bus.wvalid & (addresses != 0), "the word is taken before its address"),
            Cover(~bus.awvalid & bus.wvalid, "the address is taken before its word"),
            Cover(port.quiet & before(m, answered & port.fault, "answered"), "a fault, and quiet behind it"),
        ]

    def _order(self, m, dut):
        """A beat is marked when it goes in: behind the writes before it come its address and its word."""
        port, queue, take = dut.component, dut.part("queue"), dut.signal("take")
        bus = port.bus
        put, dropped = port.i.valid & port.i.ready, queue.component.o.valid & queue.component.o.ready & ~take
        marked, ahead, beat = Signal(), Signal(range(DEPTH + 1)), Signal.like(port.i.p)
        with m.If(~marked & put & AnySeq(1)):
            m.d.sync += [
                marked.eq(1),
                beat.eq(port.i.p),
                ahead.eq(queue.component.level - (queue.component.o.valid & queue.component.o.ready)),
            ]
        with m.If(marked & (take | dropped)):
            m.d.sync += ahead.eq(ahead - 1)
            with m.If(ahead == 0):
                m.d.sync += marked.eq(0)
        self.invariant(
            m,
            ~marked
            | ((ahead < queue.component.level) & (Value.cast(queue_word(queue, ahead)) == beat.as_value())),
            "a marked beat is where it should be",
        )
        address = byte_address(Mux(beat.io, port.io_pointer, port.pointer), beat.address, BEAT)
        issued = before(m, marked & take & (ahead == 0), "issued")
        m.d.comb += Assert(
            ~issued
            | ((bus.awvalid & bus.wvalid) & ((bus.awaddr == address) & (bus.wdata == beat.data.as_value()))),
            "every beat becomes its address and its word",
        )
        m.d.comb += Assert(~dropped | port.abort, "beats are dropped by abort only")
        m.d.comb += Cover(issued & beat.io & (bus.wdata == 0xA5), "a marked beat is written")
        # The response of a marked write is what `fault` reports.
        waits, places, before_it = Signal(), dut.part("places"), Signal(range(OUTSTANDING + 1))
        answered = bus.bvalid & bus.bready
        where = Signal.like(beat)
        with m.If(take & ~waits & AnySeq(1)):
            m.d.sync += [
                waits.eq(1),
                where.eq(queue.component.o.p),
                before_it.eq(places.signal("used") - answered),
            ]
        with m.If(waits & answered):
            m.d.sync += before_it.eq(before_it - 1)
            with m.If(before_it == 0):
                m.d.sync += waits.eq(0)
        read = places.memory().read_ports[0].addr
        place = places.row((read + before_it)[: len(read)])
        self.invariant(
            m,
            ~waits
            | (
                (before_it < places.signal("used"))
                & (place.io == where.io)
                & (place.address == where.address)
            ),
            "a marked write has its place",
        )
        failing = waits & answered & (before_it == 0) & (bus.bresp != 0)
        failed = before(m, before(m, failing, "failing") & ~port.fault, "failed")
        expected = byte_address(Mux(where.io, port.io_pointer, port.pointer), where.address, BEAT)
        expected = before(m, before(m, expected, "expected_next"), "expected")
        m.d.comb += Assert(
            ~failed | (port.fault & (port.fault_address == expected[:FAULT_BITS])),
            "a fault reports the address of its write",
        )


def _fickle(dut):
    with dut.module.If(dut.component.bus.awvalid):
        dut.module.d.sync += dut.component.bus.awvalid.eq(0)


def _hasty(dut):
    """The next beat overwrites a word that waits."""
    with dut.module.If(dut.part("queue").component.o.valid):
        dut.module.d.sync += dut.signal("word").eq(dut.part("queue").component.o.p.data)


def _crowd(dut):
    """Writes go whatever is outstanding, and awaited responses are forgotten."""
    places = dut.part("places").component
    dut.module.d.comb += places.pop.eq(~places.empty)


def _early_quiet(dut):
    dut.module.d.comb += dut.component.quiet.eq(~dut.component.bus.awvalid & ~dut.component.bus.wvalid)


def _wrong_address(dut):
    with dut.module.If(dut.signal("take")):
        dut.module.d.sync += dut.signal("address").eq(
            dut.component.pointer + (dut.part("queue").component.o.p.address << 4)
        )


def _wrong_place(dut):
    with dut.module.If(dut.signal("failed")):
        dut.module.d.sync += dut.component.fault_address.eq(dut.component.bus.awaddr)


WriteMaster.broken = {
    "gives up an address that waits": (_fickle, "AW holds until ready"),
    "overwrites a word that waits": (_hasty, "W holds until ready"),
    "forgets responses": (_crowd, "quiet when all is answered"),
    "quiet while responses are missing": (_early_quiet, "quiet when all is answered"),
    "always writes to its own buffer": (_wrong_address, "every beat becomes its address and its word"),
    "reports the address on the bus": (_wrong_place, "a fault reports the address of its write"),
}
WriteMaster.broken_bmc = 10

PROOFS = [WriteMaster]
