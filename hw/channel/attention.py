"""Attention of one channel over its share of the KV ring (docs/arithmetic.md, section 4).

    broadcast ─► intake ─┬─ q ─────────────────┐
                         ├─ slopes ────────────┼──────────────┐
                         └─ k, v ─┬─► staging ─┴─► k * q ─► score ─► weight ─┬─► denominators
         slots from memory ───────┘       └─────► v * weight ◄───────────────┘
                                                      └─► numerators
"""

from amaranth.hdl import Array, Assert, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Engine
from ..lib import Queue
from ..types import KvCommand, RingShape, Source, stage_layout, write_layout
from .accumulator import AccumulatorBank
from .drain import Answer, drain_port
from .intake import Intake, Plan, cast_port
from .score import Score
from .staging import Staging
from .walk import Walk, unit_layout

COMMANDS = 4        # KV commands a channel holds
DEN_BITS = 24


class AttentionEngine(wiring.Component):
    """ReLU-L1 attention of one channel: its heads, its ring slots, the KV staging memory.

    QUERY words go to the q memory; KEY and VALUE words of the current token to the staging memory and to the
    writer. The last VALUE word starts the work of the oldest KV command; from then on numerators and
    denominators are undefined until `att_done`. Slots are read as soon as they have arrived. A command also
    waits for the slots that it loads without needing them, so that no beat arrives behind its end.
    Throughput: one staged beat a cycle (a slot has `slot_beats`), plus some 20 cycles an operation.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    DRAIN_LATENCY : int
        Cycles from a drain request to its word.
    FIRST_READ : int
        Cycles from the last word of v at `cast` to the first read of the staging memory.
    WEIGHT_LATENCY : int
        Cycles from the read of a head's last k beat until its v may be read.
    END_LATENCY : int
        Cycles from the last read to `att_done`.
    SETTLING : int
        Cycles that a command must have been the oldest before the first KEY word.

    Members
    -------
    ring, slot_beats, group, column, active : In
        Shape of the ring, beats of a slot (2 * heads * head_words), and place of this channel in it; static.
        A channel that is not active completes commands at once.
    cast : In(cast_port(engine))
        Broadcast words; the kinds that do not concern attention are ignored.
    commands : In(stream of KvCommand)
    arrivals : In(stream of stage_layout)
        Beats of loaded slots. Waits while a word of the current token is stored; else one a cycle.
    loaded : In
        Pulse: a slot of the oldest incompletely loaded command has arrived completely (not before its last
        beat's transfer; the dropped current slot counts).
    writes : Out(stream of write_layout)
        Words of the current token. The receiver must take each before the next one comes: broadcast words
        cannot wait.
    att_done : Out
        Pulse for each command: the results can be drained, and its half of the staging memory is free.
    drain : In(drain_port(engine))
        Sources WEIGHTED (clears the word) and WEIGHT; other sources are ignored.
    """

    DRAIN_LATENCY = Answer.LATENCY
    FIRST_READ = 2                              # words taken in, walk started
    END_LATENCY = Staging.LATENCY + 4           # operands, product, sum, pulse
    SETTLING = Plan.LATENCY + 1

    def __init__(self, *, engine: Engine):
        self._engine, self._score = engine, Score(engine=engine)
        self.WEIGHT_LATENCY = Staging.LATENCY + 2 + self._score.LATENCY + 1     # operands, product; known
        super().__init__({
            "ring": In(RingShape), "slot_beats": In(range(2 * engine.query_words + 1)),
            "group": In(5), "column": In(6), "active": In(1),
            "cast": In(cast_port(engine)),
            "commands": In(stream.Signature(KvCommand)),
            "arrivals": In(stream.Signature(stage_layout(engine))),
            "loaded": In(1),
            "writes": Out(stream.Signature(write_layout(engine))),
            "att_done": Out(1),
            "drain": In(drain_port(engine)),
        })

    def elaborate(self, platform):
        m = Module()
        engine = self._engine
        m.submodules.queue = queue = Queue(KvCommand, depth=COMMANDS)
        m.submodules.intake = intake = Intake(engine=engine)
        m.submodules.plan = plan = Plan(engine=engine)
        m.submodules.staging = staging = Staging(engine=engine)
        m.submodules.walk = walk = Walk(engine=engine)
        m.submodules.score = score = self._score
        m.submodules.bank = bank = AccumulatorBank(lanes=engine.lanes, depth=engine.query_words)
        connect(m, flipped(self.commands), queue.i)
        connect(m, flipped(self.cast), intake.cast)
        connect(m, score.weight, walk.weight)
        command, half = queue.o.payload, self.slot_beats >> 1
        m.d.comb += [
            plan.command.eq(command), plan.ring.eq(self.ring), plan.slot_beats.eq(self.slot_beats),
            plan.group.eq(self.group), plan.active.eq(self.active),
            intake.column.eq(self.column), intake.half.eq(half),
            walk.start.eq(intake.start), walk.base.eq(command.stage), walk.count.eq(plan.count),
            walk.half.eq(half), walk.head_words.eq(self.ring.head_words),
            walk.here.eq(plan.here), walk.local.eq(plan.local),
            score.slopes.eq(intake.slopes), score.ring.eq(self.ring), score.column.eq(self.column),
            score.group.eq(self.group), score.position.eq(command.position), score.slot.eq(command.slot),
            bank.clear.eq(intake.start),
        ]
        self._store(m, intake, plan, staging)
        units, valid = self._multiply(m, intake, staging, walk, score, bank)
        self._sequence(m, queue, intake, plan, walk, valid)
        self._answer(m, units[1], valid[1], intake.start, bank)
        return m

    def _store(self, m, intake, plan, staging):
        """Words of the current token go to staging and writer; beats from memory take the staging port's
        other cycles."""
        current = Signal()
        write, out = staging.write, self.writes
        enable, address = Signal(), Signal.like(write.address, reset_less=True)
        word = Signal.like(write.data.as_value(), reset_less=True)
        m.d.comb += [
            current.eq(intake.kv.valid & plan.here),
            self.arrivals.ready.eq(~current),
            write.en.eq(enable), write.address.eq(address), write.data.as_value().eq(word),
        ]
        m.d.sync += enable.eq(current | self.arrivals.valid)
        with m.If(current):
            m.d.sync += [address.eq(plan.stage + intake.kv.index), word.eq(intake.kv.word)]
        with m.Elif(self.arrivals.valid):
            m.d.sync += [address.eq(self.arrivals.payload.address), word.eq(self.arrivals.payload.data)]

        with m.If(out.ready):
            m.d.sync += out.valid.eq(0)
        with m.If(current):
            m.d.sync += [
                out.valid.eq(1), out.payload.io.eq(0), out.payload.address.eq(plan.address + intake.kv.index),
                out.payload.data.eq(intake.kv.word),
                Assert(~out.valid | out.ready, "the writer did not take a word of the current token in time"),
            ]

    def _multiply(self, m, intake, staging, walk, score, bank):
        """One array of multipliers for k * q and v * weight. Returns the units beside it and their valid
        bits.

        Index i: i cycles after the read was issued. 2: beat from staging, 3: operands, 4: product.
        """
        engine, layout = self._engine, unit_layout(self._engine)
        m.submodules.query = query = Memory(
            shape=8 * engine.lanes, depth=engine.query_words, init=[], attrs={"ram_style": "distributed"},
        )
        write, read = query.write_port(), query.read_port(domain="comb")
        units = [walk.read.unit, *(Signal(layout, name=f"unit_{i}") for i in range(1, 5))]
        valid = [walk.read.valid, *(Signal(name=f"valid_{i}") for i in range(1, 5))]
        for i in range(4):
            m.d.sync += valid[i + 1].eq(valid[i])
            with m.If(valid[i]):
                m.d.sync += units[i + 1].eq(units[i])
        m.d.comb += [
            write.en.eq(intake.q.valid), write.addr.eq(intake.q.index), write.data.eq(intake.q.word),
            staging.read.en.eq(valid[0]), staging.read.address.eq(walk.read.address),
            read.addr.eq(units[2].word),
            bank.add.valid.eq(valid[3] & units[3].value), bank.add.address.eq(units[3].word),
            score.beat.valid.eq(valid[4] & ~units[4].value), score.beat.unit.eq(units[4]),
        ]
        for lane in range(engine.lanes):
            byte = Signal(signed(8), name=f"byte_{lane}", reset_less=True)
            factor = Signal(signed(16), name=f"factor_{lane}", reset_less=True)
            product = Signal(signed(24), name=f"product_{lane}", reset_less=True)
            with m.If(valid[2]):
                m.d.sync += [
                    byte.eq(staging.read.data[lane]),
                    factor.eq(
                        Mux(units[2].value, units[2].weight, read.data.word_select(lane, 8).as_signed())
                    ),
                ]
            with m.If(valid[3]):
                m.d.sync += product.eq(byte * factor)
            m.d.comb += [bank.add.addends[lane].eq(product), score.beat.products[lane].eq(product)]
        return units, valid

    def _sequence(self, m, queue, intake, plan, walk, valid):
        """Start with the last word of v, end when everything is summed up and everything has arrived."""
        busy, arrived, loaded = Signal(), Signal(), Signal(12)
        complete = Signal()             # of the cycle before
        settled = Signal(range(self.SETTLING + 1))
        end = Signal()
        m.d.comb += [
            end.eq(busy & ~walk.busy & ~(valid[1] | valid[2] | valid[3] | valid[4]) & complete),
            queue.o.ready.eq(end),
            walk.loaded.eq(loaded),
        ]
        m.d.sync += [
            arrived.eq(self.loaded),        # a slot counts when its last beat is in the memory
            loaded.eq(Mux(end, loaded - plan.loads, loaded) + arrived), complete.eq(loaded >= plan.loads),
            self.att_done.eq(end),
        ]
        with m.If(intake.start):
            m.d.sync += busy.eq(1)
        with m.If(end):
            m.d.sync += [busy.eq(0), settled.eq(0)]
        with m.Elif(queue.o.valid & (settled != self.SETTLING)):
            m.d.sync += settled.eq(settled + 1)
        with m.If(intake.start | (intake.kv.valid & plan.active)):
            m.d.sync += Assert(settled == self.SETTLING, "k or v without a KV command, or too early")
            m.d.sync += Assert(~busy, "k or v during attention")

    def _answer(self, m, unit, valid, clear, bank):
        """Denominators, and the drain port."""
        engine = self._engine
        m.submodules.answer = answer = Answer(engine=engine, bank=Source.WEIGHTED, fixed=Source.WEIGHT)
        connect(m, flipped(self.drain), answer.drain)
        dens = [Signal(DEN_BITS, name=f"den_{head}") for head in range(engine.heads)]
        den = Array(dens)[unit.head]
        with m.If(valid & unit.value & unit.first):
            m.d.sync += den.eq(den + unit.weight)
        with m.If(clear):
            m.d.sync += [den.eq(0) for den in dens]
        m.d.comb += [
            bank.drain.valid.eq(answer.address.valid), bank.drain.address.eq(answer.address.address),
            answer.banked.eq(bank.drain.word),
        ]
        m.d.comb += [word.eq(den) for word, den in zip(answer.word, dens)]
