"""Order in which attention reads its staged beats: k of a head, and with its weight known, v of that head."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ...config import Engine
from ...types import HEAD_WORDS_BITS

WEIGHT_BITS = 15  # attention weights are in 0 .. 32767
AHEAD = 16  # heads whose k is read before their v: covers the latency from k to its weight


def key_layout(engine: Engine) -> data.StructLayout:
    """A k beat on its way through attention."""
    return data.StructLayout(
        {
            "first": 1,
            "last": 1,  # beat of its head
            "word": range(engine.query_words),  # word of this channel's heads
            "head": range(engine.heads),  # local head
            "local": 9,  # local slot
        }
    )


def value_layout(engine: Engine) -> data.StructLayout:
    """A v beat on its way through attention."""
    return data.StructLayout(
        {
            "first": 1,  # beat of its head
            "word": range(engine.query_words),  # word of this channel's heads
            "head": range(engine.heads),  # local head
            "weight": WEIGHT_BITS,  # of its slot and head
        }
    )


def read_port(engine: Engine, unit: data.StructLayout) -> wiring.Signature:
    """A beat read in this cycle from one half of the staging memory."""
    return wiring.Signature({"valid": Out(1), "address": Out(range(engine.stage_beats)), "unit": Out(unit)})


class _SlotAddress(wiring.Component):
    """Steps through the k beats (or the v beats) of all slots of the group. They follow each other, but the
    current token's slot, wherever it lies in the ring, comes last: its k and v are broadcast meanwhile.

    Members
    -------
    start : In
        Begin at staging address `base`, with `count` slots.
    half, head_words : In
        Beats of k in a slot; beats of a head. Static.
    here, own, own_address : In
        The current token's slot is in this group, as local slot `own`, from `own_address` on; stable from
        before `start`.
    step : In
        Go to the next beat; only while `busy`.
    """

    def __init__(self, engine: Engine):
        unit = key_layout(engine)
        super().__init__(
            {
                "start": In(1),
                "base": In(range(engine.stage_beats)),
                "count": In(10),
                "half": In(range(engine.query_words + 1)),
                "head_words": In(HEAD_WORDS_BITS),
                "here": In(1),
                "own": In(unit["local"].shape),
                "own_address": In(range(engine.stage_beats)),
                "step": In(1),
                "busy": Out(1),
                "address": Out(range(engine.stage_beats)),
                "local": Out(unit["local"].shape),
                "word": Out(unit["word"].shape),
                "head": Out(unit["head"].shape),
                "first": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left = Signal(10)  # slots, this one included
        rest = Signal(HEAD_WORDS_BITS)  # beats of this head after this one
        before = Signal.like(self.own)  # the slot before the current token's
        begins = Signal()  # the current token's slot is the group's first one
        m.d.comb += self.last.eq(rest == 0)
        beyond = Signal(range(1 << len(self.half)))  # from a slot's last beat to the slot after the next
        m.d.sync += [
            before.eq(self.own - 1),
            begins.eq(self.here & (self.own == 0)),
            beyond.eq(self.half + 1),
        ]
        with m.If(self.step):
            m.d.sync += [
                self.address.eq(self.address + 1),
                self.word.eq(self.word + 1),
                rest.eq(rest - 1),
                self.first.eq(self.last),
            ]
            with m.If(self.last):
                m.d.sync += [rest.eq(self.head_words - 1), self.head.eq(self.head + 1)]
            with m.If(self.word + 1 == self.half):  # last beat of the slot
                m.d.sync += [
                    self.word.eq(0),
                    self.head.eq(0),
                    self.local.eq(self.local + 1),
                    left.eq(left - 1),
                    self.busy.eq(left != 1),
                ]
                with m.If(self.here & (left == 2)):
                    m.d.sync += [self.local.eq(self.own), self.address.eq(self.own_address)]
                with m.Elif(self.here & (self.local == before)):
                    m.d.sync += [self.local.eq(self.local + 2), self.address.eq(self.address + beyond)]
        with m.If(self.start):
            passed = begins & (self.count != 1)
            m.d.sync += [
                self.address.eq(self.base + Mux(passed, self.half, 0)),
                self.local.eq(passed),
                self.word.eq(0),
                self.head.eq(0),
                left.eq(self.count),
                rest.eq(self.head_words - 1),
                self.first.eq(1),
                self.busy.eq(self.count != 0),
            ]
        return m


class ReadScheduler(wiring.Component):
    """Issues up to two staging reads a cycle: the next k beat if its slot is there, the next v beat if its
    weight is known. The current token's slot comes last.

    Sustained rate: one k beat and one v beat a cycle while slots are there, as k runs up to `AHEAD` heads
    ahead of v.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    start : In
        Begin; only while not `busy`.
    base, count : In
        First beat of the layer's ring in each half of the staging memory, and local slots that take part;
        valid with `start`.
    half, head_words : In
        Beats of k in a slot; beats of a head. Static.
    loaded : In
        Local slots 0 .. loaded - 1 have arrived from memory.
    here, local, address : In
        The current token's slot is local slot `local` of this group, from beat `address` of each half on: it
        is not loaded, ...
    taken : In
        ... but there from now on.
    kept : In
        All other slots are there from earlier passes; only where the ring is resident.
    weight : In
        {valid, value}: the weights, in the order of the k beats.
    busy : Out
        There are beats left to issue.
    keys, values : Out(read_port)
    """

    def __init__(self, *, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "start": In(1),
                "base": In(range(engine.stage_beats)),
                "count": In(10),
                "half": In(range(engine.query_words + 1)),
                "head_words": In(HEAD_WORDS_BITS),
                "loaded": In(12),
                "here": In(1),
                "local": In(9),
                "address": In(range(engine.stage_beats)),
                "taken": In(1),
                "kept": In(1),
                "weight": In(wiring.Signature({"valid": Out(1), "value": Out(WEIGHT_BITS)})),
                "busy": Out(1),
                "keys": Out(read_port(engine, key_layout(engine))),
                "values": Out(read_port(engine, value_layout(engine))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.keys = keys = _SlotAddress(self._engine)
        m.submodules.values = values = _SlotAddress(self._engine)
        for pointer, read in ((keys, self.keys), (values, self.values)):
            m.d.comb += [
                pointer.start.eq(self.start),
                pointer.base.eq(self.base),
                pointer.count.eq(self.count),
                pointer.half.eq(self.half),
                pointer.head_words.eq(self.head_words),
                pointer.here.eq(self.here),
                pointer.own.eq(self.local),
                pointer.own_address.eq(self.address),
                read.valid.eq(pointer.step),
                read.address.eq(pointer.address),
            ]
            names = [name for name in read.unit.shape().members if name != "weight"]
            m.d.comb += [getattr(read.unit, name).eq(getattr(pointer, name)) for name in names]

        known, room, weight = self._weights(m, keys, values)
        present = Signal()
        kept = self.kept if self._engine.kv_resident else 0
        arrived = kept | (keys.local < self.loaded)
        m.d.comb += present.eq(Mux(self.here & (keys.local == self.local), self.taken, arrived))
        m.d.comb += [
            values.step.eq(values.busy & known),
            keys.step.eq(keys.busy & present & room),
            self.busy.eq(values.busy),
            self.values.unit.weight.eq(weight),
        ]
        return m

    def _weights(self, m, keys, values):
        """Queue of the weights. Returns: weight of the next v is known; there is room for the next k; that
        weight."""
        m.submodules.memory = memory = Memory(
            shape=WEIGHT_BITS,
            depth=AHEAD,
            init=[],
            attrs={"ram_style": "distributed"},
        )
        write, read = memory.write_port(), memory.read_port(domain="comb")
        # heads
        asked, known, used = (Signal(range(2 * AHEAD), name=name) for name in ("asked", "known", "used"))
        with m.If(keys.step & keys.first):
            m.d.sync += asked.eq(asked + 1)
        with m.If(self.weight.valid):
            m.d.sync += known.eq(known + 1)
        with m.If(values.step & values.last):
            m.d.sync += used.eq(used + 1)
        m.d.comb += [
            write.en.eq(self.weight.valid),
            write.addr.eq(known),
            write.data.eq(self.weight.value),
            read.addr.eq(used),
        ]
        ahead = Signal(range(2 * AHEAD))
        m.d.comb += ahead.eq(asked - used)
        return known != used, ~keys.first | (ahead != AHEAD), read.data
