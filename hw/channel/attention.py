"""Attention of one channel over its share of the KV ring (docs/arithmetic.md, section 4).

broadcast ─► intake ─┬─ q ─────────────────┐
                     ├─ slopes ────────────┼──────────────┐
                     └─ k, v ─┬─► keys ────┴─► k * q ─► score ─► weight ─┬─► denominators
     slots from memory ───────┴─► values ───► v * weight ◄───────────────┘
                                                  └─► numerators
"""

from amaranth.hdl import Array, Assert, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Engine
from ..lib.queue import Queue
from ..types import CHANNEL_BITS, COLUMN_BITS, KvCommand, RingShape, Source, stage_layout, write_layout
from .accumulator import AccumulatorBank
from .drain_port import DrainPort, drain_port
from .ring.broadcast_receiver import BroadcastReceiver, KvCommandDecoder, cast_port
from .ring.read_scheduler import ReadScheduler
from .ring.score import Score
from .ring.staging import Staging

COMMANDS = 8  # KV commands it holds
DEN_BITS = 24


class AttentionEngine(wiring.Component):
    """ReLU-L1 attention of one channel: its heads, its ring slots, the two halves of the KV staging memory.

    QUERY words go to the q memory; KEY and VALUE words of the current token to their halves and to the
    writer. The first KEY word starts the work of the oldest KV command, as q is complete then; from there on
    numerators and denominators are undefined until `DRAIN_AFTER` cycles behind `att_done`. Slots are read as
    soon as they have arrived, the current token's last, behind the last VALUE word. A command also waits for
    the slots that it loads without needing them, so that no beat arrives behind its end.
    Throughput: one k beat and one v beat a cycle (a slot has `half` of each), and a constant an operation:
    FIRST_READ + head_words - 1 + WEIGHT_LATENCY + slots * half - 1 + END_LATENCY from the first word of k, or
    the same of one slot from the last word of v, to `att_done` if the slots are there.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    DRAIN_LATENCY : int
        Cycles from a drain request to its word.
    FIRST_READ : int
        Cycles from the first word of k at `cast` to the first read of the staging memory, and from the last
        word of v to the first one of the current token's slot.
    WEIGHT_LATENCY : int
        Cycles from the read of a head's last k beat until its v may be read.
    END_LATENCY : int
        Cycles from the last read to `att_done`.
    DRAIN_AFTER : int
        Cycles from `att_done` to the first drain request: its way to the requester and back takes more.
    SETTLING : int
        Cycles that a command must have been the oldest before the first KEY word.

    Members
    -------
    ring, half, group, column, active : In
        Shape of the ring, beats of k (or v) in a slot (heads * head_words), and place of this channel in it;
        static.
        A channel that is not active completes commands at once.
    cast : In(cast_port(engine))
        Broadcast words; the kinds that do not concern attention are ignored.
    commands : In(stream of KvCommand)
    level : Out
        Commands it holds.
    arrivals : In(stream of stage_layout)
        Beats of loaded slots. Waits while a word of the current token is stored; else one a cycle.
    loaded : In
        Pulse: a slot of the oldest incompletely loaded command has arrived completely (not before its last
        beat's transfer; the dropped current slot counts).
    writes : Out(stream of write_layout)
        Words of the current token. The receiver must take each before the next one comes: broadcast words
        cannot wait.
    att_done : Out
        Pulse for each command: the results can be drained soon, and its part of the staging memory is free.
    drain : In(drain_port(engine))
        Sources WEIGHTED (clears the word) and WEIGHT; other sources are ignored.
    """

    DRAIN_LATENCY = DrainPort.LATENCY
    FIRST_READ = 2  # words taken in, walk started
    END_LATENCY = 2  # nothing left to read, pulse
    DRAIN_AFTER = Staging.LATENCY + 1 + AccumulatorBank.ADD_LATENCY - END_LATENCY  # operands, sum
    SETTLING = KvCommandDecoder.LATENCY + 1

    def __init__(self, *, engine: Engine):
        self._engine, self._score = engine, Score(engine=engine)
        self.WEIGHT_LATENCY = Staging.LATENCY + 2 + self._score.LATENCY + 1  # operands, product; known
        super().__init__(
            {
                "ring": In(RingShape),
                "half": In(range(engine.query_words + 1)),
                "group": In(CHANNEL_BITS),
                "column": In(COLUMN_BITS),
                "active": In(1),
                "cast": In(cast_port(engine)),
                "commands": In(stream.Signature(KvCommand)),
                "level": Out(range(COMMANDS + 1)),
                "arrivals": In(stream.Signature(stage_layout(engine))),
                "loaded": In(1),
                "writes": Out(stream.Signature(write_layout(engine))),
                "att_done": Out(1),
                "drain": In(drain_port(engine)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.queue = queue = Queue(KvCommand, depth=COMMANDS)
        m.submodules.intake = intake = BroadcastReceiver(engine=engine)
        m.submodules.plan = plan = KvCommandDecoder(engine=engine)
        m.submodules.keys = keys = Staging(engine=engine)
        m.submodules.values = values = Staging(engine=engine)
        m.submodules.walk = walk = ReadScheduler(engine=engine)
        m.submodules.score = score = self._score
        m.submodules.bank = bank = AccumulatorBank(lanes=engine.lanes, depth=engine.query_words, shared=True)
        connect(m, flipped(self.commands), queue.i)
        m.d.comb += self.level.eq(queue.level)
        connect(m, flipped(self.cast), intake.cast)
        connect(m, score.weight, walk.weight)
        command = queue.o.payload
        m.d.comb += [
            plan.command.eq(command),
            plan.ring.eq(self.ring),
            plan.half.eq(self.half),
            plan.group.eq(self.group),
            plan.active.eq(self.active),
            intake.column.eq(self.column),
            intake.half.eq(self.half),
            walk.start.eq(intake.start),
            walk.base.eq(command.stage),
            walk.count.eq(plan.count),
            walk.half.eq(self.half),
            walk.head_words.eq(self.ring.head_words),
            walk.here.eq(plan.here),
            walk.local.eq(plan.local),
            walk.address.eq(plan.stage),
            walk.kept.eq(plan.none),
            score.slopes.eq(intake.slopes),
            score.ring.eq(self.ring),
            score.column.eq(self.column),
            score.group.eq(self.group),
            score.position.eq(command.position),
            score.slot.eq(command.slot),
            bank.clear.eq(intake.start),
        ]
        self._store(m, intake, plan, keys, values)
        self._compare(m, intake, keys, walk, score)
        unit, valid = self._weigh(m, values, walk, bank)
        self._sequence(m, queue, intake, plan, walk)
        self._answer(m, unit, valid, intake.start, bank)
        return m

    def _store(self, m, intake, plan, keys, values):
        """Words of the current token go to staging and writer; beats from memory take the other cycles."""
        current, value = Signal(), Signal()
        out, written = self.writes, Signal(write_layout(self._engine), reset_less=True)
        m.d.comb += out.payload.eq(written)
        address = Signal.like(keys.write.address, reset_less=True)
        word = Signal.like(keys.write.data.as_value(), reset_less=True)
        m.d.comb += [
            current.eq(intake.kv.valid & plan.here),
            value.eq(Mux(current, intake.kv.value, self.arrivals.payload.value)),
            self.arrivals.ready.eq(~current),
        ]
        for half, mine in ((keys, ~value), (values, value)):
            enable = Signal()
            m.d.sync += enable.eq((current | self.arrivals.valid) & mine)
            m.d.comb += [
                half.write.en.eq(enable),
                half.write.address.eq(address),
                half.write.data.as_value().eq(word),
            ]
        with m.If(current):
            m.d.sync += [address.eq(plan.stage + intake.kv.index), word.eq(intake.kv.word)]
        with m.Elif(self.arrivals.valid):
            m.d.sync += [address.eq(self.arrivals.payload.address), word.eq(self.arrivals.payload.data)]

        with m.If(out.ready):
            m.d.sync += out.valid.eq(0)
        with m.If(current):
            m.d.sync += [
                out.valid.eq(1),
                written.io.eq(0),
                written.address.eq(plan.address + intake.kv.beat),
                written.data.eq(intake.kv.word),
                Assert(~out.valid | out.ready, "the writer did not take a word of the current token in time"),
            ]

    @staticmethod
    def _flight(m, name, read, half, cycles):
        """Reads of a half of the staging memory on their way. Returns units and valid bits: [i] i <= cycles
        after the read was issued."""
        units = [read.unit, *(Signal(read.unit.shape(), name=f"{name}_{i + 1}") for i in range(cycles))]
        valid = [read.valid, *(Signal(name=f"{name}_valid_{i + 1}") for i in range(cycles))]
        for i in range(cycles):
            m.d.sync += valid[i + 1].eq(valid[i])
            with m.If(valid[i]):
                m.d.sync += units[i + 1].eq(units[i])
        m.d.comb += [half.read.en.eq(read.valid), half.read.address.eq(read.address)]
        return units, valid

    @staticmethod
    def _products(m, name, valid, beat, factors, products):
        """A multiplier a lane. Index 2 of `valid`: beat and factors are there, 3: operands, 4: products."""
        for lane, factor in enumerate(factors):
            byte = Signal(signed(8), name=f"{name}_byte_{lane}", reset_less=True)
            other = Signal(signed(len(factor)), name=f"{name}_factor_{lane}", reset_less=True)
            product = Signal(signed(8 + len(factor)), name=f"{name}_product_{lane}", reset_less=True)
            with m.If(valid[2]):
                m.d.sync += [byte.eq(beat[lane]), other.eq(factor)]
            with m.If(valid[3]):
                m.d.sync += product.eq(byte * other)
            m.d.comb += products[lane].eq(product)

    def _compare(self, m, intake, keys, walk, score):
        """k * q, and the score behind it."""
        engine = self._engine
        m.submodules.query = query = Memory(
            shape=8 * engine.lanes,
            depth=engine.query_words,
            init=[],
            attrs={"ram_style": "block"},
        )
        write, read = query.write_port(), query.read_port()
        units, valid = self._flight(m, "key", walk.keys, keys, 4)
        m.d.comb += [
            write.en.eq(intake.q.valid),
            write.addr.eq(intake.q.index),
            write.data.eq(intake.q.word),
            read.addr.eq(units[1].word),
            read.en.eq(valid[1]),
            score.beat.valid.eq(valid[4]),
            score.beat.unit.eq(units[4]),
        ]
        factors = [read.data.word_select(lane, 8).as_signed() for lane in range(engine.lanes)]
        self._products(m, "key", valid, keys.read.data, factors, score.beat.products)

    def _weigh(self, m, values, walk, bank):
        """v * weight into the numerators. Returns a v beat's unit and its valid bit."""
        units, valid = self._flight(m, "value", walk.values, values, 3)
        m.d.comb += [bank.add.valid.eq(valid[3]), bank.add.address.eq(units[3].word)]
        weight = Cat(units[2].weight, C(0, 1)).as_signed()
        self._products(m, "value", valid, values.read.data, [weight] * self._engine.lanes, bank.add.addends)
        return units[1], valid[1]

    def _sequence(self, m, queue, intake, plan, walk):
        """Start with the first word of k, end when everything is read and everything has arrived."""
        busy, arrived, loaded = Signal(), Signal(), Signal(12)
        taken = Signal()  # the current token's k and v are complete
        complete = Signal()  # of the cycle before
        settled = Signal(range(self.SETTLING + 1))
        end = Signal()
        m.d.comb += [
            end.eq(busy & taken & ~walk.busy & complete),
            queue.o.ready.eq(end),
            walk.loaded.eq(loaded),
            walk.taken.eq(taken),
        ]
        m.d.sync += [
            arrived.eq(self.loaded),  # a slot counts when its last beat is in the memory
            loaded.eq(Mux(end, loaded - plan.loads, loaded) + arrived),
            complete.eq(loaded >= plan.loads),
            self.att_done.eq(end),
        ]
        with m.If(intake.start):
            m.d.sync += busy.eq(1)
        with m.If(intake.complete):
            m.d.sync += taken.eq(1)
        with m.If(end):
            m.d.sync += [busy.eq(0), taken.eq(0), settled.eq(0)]
        with m.Elif(queue.o.valid & (settled != self.SETTLING)):
            m.d.sync += settled.eq(settled + 1)
        with m.If(intake.start | (intake.kv.valid & plan.active)):
            m.d.sync += Assert(settled == self.SETTLING, "k or v without a KV command, or too early")
            m.d.sync += Assert(~taken, "k or v during attention")
        with m.If(intake.start | intake.q.valid):
            m.d.sync += Assert(~busy, "q or the first word of k during attention")
        with m.If(intake.kv.valid):
            m.d.sync += Assert(busy | intake.start, "k or v before the first word of k")

    def _answer(self, m, unit, valid, clear, bank):
        """Denominators, and the drain port."""
        engine = self._engine
        m.submodules.answer = answer = DrainPort(engine=engine, bank=Source.WEIGHTED, fixed=Source.WEIGHT)
        connect(m, flipped(self.drain), answer.drain)
        dens = [Signal(DEN_BITS, name=f"den_{head}", reset_less=True) for head in range(engine.heads)]
        den = Array(dens)[unit.head]
        with m.If(valid & unit.first):
            m.d.sync += den.eq(den + unit.weight)
        with m.If(clear):
            m.d.sync += [den.eq(0) for den in dens]
        m.d.comb += [
            bank.drain.valid.eq(answer.address.valid),
            bank.drain.read.eq(answer.address.read),
            bank.drain.address.eq(answer.address.address),
            answer.banked.eq(bank.drain.word),
        ]
        m.d.comb += [word.eq(den) for word, den in zip(answer.word, dens)]
