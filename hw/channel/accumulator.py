"""Words of accumulators in distributed RAM, with a one-cycle read-modify-write loop and a drain port of their
own."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class AccumulatorBank(wiring.Component):
    """`depth` words of `lanes` signed accumulators: acc[address] += addends.

    A word that was not added to since it was drained last counts as zero, so nothing is ever cleared by a
    sweep: the first addition writes. Throughput: one addition and one drain a cycle, to different addresses;
    two successive additions may go to the same address.

    Parameters
    ----------
    lanes, depth : int
    width : int
        Bits of an accumulator.
    shared : bool
        One port of the memories serves additions and drains, which takes half of their LUTs: no word may be
        drained in the cycle behind `add.valid`.
    carries : bool
        Every odd lane's addend comes with a carry, another 0 or 1 to add: its product was made in one
        multiplier with its neighbour's.

    Attributes
    ----------
    ADD_LATENCY : int
        Cycles from `add.valid` until the sum can be drained. The addends follow one cycle after `add.valid`
        and `add.address` (so the look-up of "touched" is off the adders' path).
    DRAIN_LATENCY : int
        Cycles from `drain.address` to `drain.word`, zero where `drain.read` was low.

    Members
    -------
    add : {valid, address} and, a cycle later, addends (and carries, if any, a bit for each odd lane)
    drain : {valid, read, address} and, a cycle later, word; with `valid`, which goes with `read`, the word is
        drained: it is zero from then on
    clear : In
        Makes all words zero; neither port may be used in the same cycle, nor addends be on their way.
    """

    ADD_LATENCY = 2
    DRAIN_LATENCY = 1

    def __init__(
        self, *, lanes: int, depth: int, width: int = 32, shared: bool = False, carries: bool = False
    ):
        self._lanes, self._depth, self._width = lanes, depth, width
        self._shared, self._carries = shared, carries
        word = data.ArrayLayout(signed(width), lanes)
        add = {"valid": Out(1), "address": Out(range(depth)), "addends": Out(word)}
        if carries:
            add["carries"] = Out(lanes // 2)
        super().__init__(
            {
                "clear": In(1),
                "add": In(wiring.Signature(add)),
                "drain": In(
                    wiring.Signature(
                        {"valid": Out(1), "read": Out(1), "address": Out(range(depth)), "word": In(word)}
                    )
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        touched = Signal(self._depth)  # one bit a word: holds a sum
        fresh = Signal()  # the word behind `address` holds no sum yet
        valid = Signal()
        address = Signal.like(self.add.address)
        added, drained = Signal(self._depth), Signal(self._depth)
        with m.If(self.add.valid):
            m.d.comb += added.bit_select(self.add.address, 1).eq(1)
            m.d.sync += [
                fresh.eq(~touched.bit_select(self.add.address, 1)),
                address.eq(self.add.address),
            ]
        with m.If(self.drain.valid):
            m.d.comb += drained.bit_select(self.drain.address, 1).eq(1)
        m.d.sync += valid.eq(self.add.valid)
        with m.If(self.clear):
            m.d.sync += touched.eq(0)
        with m.Elif(self.add.valid | self.drain.valid):
            m.d.sync += touched.eq((touched & ~drained) | added)

        there = Signal()  # the word that is read holds a sum
        m.d.comb += there.eq(self.drain.read & touched.bit_select(self.drain.address, 1))
        place = Signal.like(address)
        m.d.comb += place.eq(Mux(valid, address, self.drain.address) if self._shared else address)
        for lane in range(self._lanes):
            self._lane(m, lane, valid, place, fresh, there)
        self._check(m, valid, address)
        return m

    def _lane(self, m, lane, valid, place, fresh, there):
        """One lane's memory: port `read` closes the loop, port `drain`, which may be the same, serves the
        drain."""
        memory = Memory(
            shape=signed(self._width), depth=self._depth, init=[], attrs={"ram_style": "distributed"}
        )
        m.submodules[f"memory_{lane}"] = memory
        write = memory.write_port()
        read = memory.read_port(domain="comb")
        drain = read if self._shared else memory.read_port(domain="comb")
        base = Signal(signed(self._width))
        with m.If(~fresh):
            m.d.comb += base.eq(read.data)
        m.d.comb += [
            read.addr.eq(place),
            write.addr.eq(place),
            write.en.eq(valid),
            write.data.eq(self._sum(lane, base)),
        ]
        if not self._shared:
            m.d.comb += drain.addr.eq(self.drain.address)
        word = Signal(signed(self._width), name=f"word_{lane}", reset_less=True)
        m.d.sync += word.eq(Mux(there, drain.data, 0))
        m.d.comb += self.drain.word[lane].eq(word)

    def _sum(self, lane, base):
        """The word that passes no gate first: it alone feeds the carries, so the gate costs no LUT."""
        addend = self.add.addends[lane]
        if not (self._carries and lane % 2):
            return addend + base
        # One carry chain: the bit below the numbers, the same in both, makes the carry.
        carry = self.add.carries[lane // 2]
        return (Cat(carry, addend) + Cat(carry, base))[1:]

    def _check(self, m, valid, address):
        with m.If(self.drain.valid):
            m.d.sync += [
                Assert(self.drain.read, "a drain that does not read"),
                Assert(
                    ~(self.add.valid & (self.add.address == self.drain.address)), "drain meets an addition"
                ),
                Assert(~(valid & (address == self.drain.address)), "drain before the sum is complete"),
            ]
        if self._shared:
            with m.If(valid):
                m.d.sync += Assert(~self.drain.valid, "a drain and an addition meet at the shared port")
        with m.If(self.clear):
            m.d.sync += Assert(
                ~(self.add.valid | self.drain.valid | valid), "clear meets an addition or a drain"
            )
