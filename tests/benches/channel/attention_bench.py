"""Driver, loader and exact ring of the bench of hw.channel.attention."""

from dataclasses import replace

import numpy as np

from symlight.hw.channel.attention import AttentionEngine
from symlight.hw.config import card
from symlight.hw.types import (
    BroadcastKind,
    KvCommand,
    RingShape,
    beat_layout,
    broadcast_layout,
    drain_layout,
    stage_layout,
    write_layout,
)
from symlight.hw.types import Source as Origin
from symlight.model import ops
from symlight.model.config import ModelShape
from tests.benches.bench import Agent, Bench, Sink, Source, bits, parameters, stalls
from tests.benches.channel.channel_bench import Drain, Watch, beat_of

LIMIT = {"timeout_time": 2_000_000, "timeout_unit": "ns"}


def model(**changes):
    return ModelShape(
        **{
            "layers": 2,
            "width": changes.get("heads", 4) * changes.get("head_width", 32),
            "heads": 4,
            "head_width": 32,
            "ffn": 16,
            "vocab": 16,
            "bottleneck": 4,
            **changes,
        }
    )


# name: model, log_groups, heads of a column, (group, column) of this channel
PLACES = {
    "grouped": (model(anchors=4, window=11), 2, 2, (1, 1)),
    "one group, one-beat heads": (model(head_width=16, anchors=0, window=7), 0, 4, (0, 0)),
    "uneven columns": (model(heads=3, head_width=40, anchors=2, window=8), 1, 2, (1, 1)),
    "one layer, one head": (model(layers=1, head_width=12, anchors=5, window=6), 1, 1, (0, 3)),
    "many groups": (model(heads=1, anchors=2, window=20), 3, 1, (6, 0)),
}


class Loader(Agent):
    """Brings the slots of the KV commands, two commands ahead of attention, as the loader of a channel
    does."""

    def __init__(self, bench, ring, pattern):
        super().__init__(bench)
        self.ring, self.pattern = ring, stalls(bench.rng, pattern)
        self.commands, self.todo, self.unfinished = [], [], 0
        self.offered = self.taken = False

    def idle(self):
        self.dut.arrivals__valid.value = self.dut.loaded.value = 0
        self.offered = False

    def drive(self):
        if not self.todo and self.commands and self.unfinished < 2:
            self.todo = self.ring.load(self.commands.pop(0))
            self.unfinished += 1
        pulse = False
        if not self.offered:  # else valid holds
            pulse = bool(self.todo) and self.todo[0] is None and not next(self.pattern)
            if pulse:
                self.todo.pop(0)
            self.offered = bool(self.todo) and self.todo[0] is not None and not next(self.pattern)
            rubbish = self.bench.rng.getrandbits(len(self.dut.arrivals__payload))
            self.dut.arrivals__payload.value = self.todo[0] if self.offered else rubbish
        self.dut.arrivals__valid.value = int(self.offered)
        # from registers: it is settled
        self.taken = self.offered and int(self.dut.arrivals__ready.value)
        # A slot may be reported in the cycle of its last beat.
        self.early = self.taken and not pulse and len(self.todo) > 1 and self.todo[1] is None
        self.dut.loaded.value = int(pulse or self.early)

    def sample(self):
        if self.offered:
            assert self.taken == int(self.dut.arrivals__ready.value), "ready is not from a register"
        if self.taken:
            del self.todo[: 2 if self.early else 1]
            self.offered, self.taken = False, False
            self.count += 1

    def check_empty(self):
        assert not self.todo and not self.commands


class Ring:
    """Memory, channel and integer reference of one place."""

    def __init__(self, rng, engine, place, mode):
        self.shape, self.log_groups, self.heads, (self.group, self.column) = PLACES[place]
        self.rng, self.engine, self.mode = np.random.default_rng(rng.getrandbits(32)), engine, mode
        shape, lanes = self.shape, engine.lanes
        self.words = -(-shape.head_width // lanes)
        self.columns = -(-shape.heads // self.heads)
        self.half = self.heads * self.words
        self.size = -(-shape.slots // (1 << self.log_groups)) * 2 * self.half
        self.active = True
        self.restored = None  # mode "resident": position of the pass after a restore
        self.frac = rng.choice([0, 3, 6])
        self.slopes = self.rng.integers(0, rng.choice([2, 40, 1024]), shape.heads)
        head_space = (shape.layers, 2, shape.slots, self.columns * self.half * lanes)
        self.truth = self.vectors(*head_space)  # k, v of all slots; columns padded with rubbish
        self.memory = {}  # beat address -> bits
        for layer in range(shape.layers):
            self.fill(layer)

    def fill(self, layer):
        """Write this channel's share of `truth` to the memory."""
        for slot in self.mine(self.shape.slots):
            for beat, word in enumerate(self.slot_words(layer, slot)):
                self.memory[self.address(layer, slot) + beat] = word

    def vectors(self, *size):
        wide = self.rng.random() < 0.7
        low, high = (-127, 128) if wide else (-5, 6)
        return np.where(
            self.rng.random(size) < 0.1,
            self.rng.choice([-127, 127], size),
            self.rng.integers(low, high, size),
        )

    def base(self, layer):
        return 0x1000 + layer * 0x200

    def address(self, layer, slot):
        return self.base(layer) + (slot >> self.log_groups) * 2 * self.half

    def slot_words(self, layer, slot):
        lanes = self.engine.lanes
        parts = self.truth[layer, :, slot].reshape(2, self.columns, self.half, lanes)[:, self.column]
        return [bits(beat_layout(self.engine), beat_of(word)) for word in parts.reshape(-1, lanes)]

    def command(self, layer, position):
        shape = self.shape
        attend = shape.populated(position)
        kept = min(position, shape.slots) if position == self.restored else 0
        load = {"valid": attend, "full": shape.slots, "resident": kept}[self.mode]
        stage = self.size // 2 * (layer if self.engine.kv_resident else layer % 2)
        return {
            "base": self.base(layer),
            "stage": stage,
            "load": load,
            "attend": attend,
            "slot": shape.slot(position),
            "position": position,
            "layer": layer,
        }

    def mine(self, slots):
        return [s for s in range(slots) if s % (1 << self.log_groups) == self.group] if self.active else []

    def load(self, command):
        """Beats that the loader brings (bit patterns of stage_layout), None after each slot."""
        todo = []
        for n, slot in enumerate(self.mine(command["load"])):
            if slot != command["slot"]:
                for beat in range(2 * self.half):
                    value, word = divmod(beat, self.half)
                    address = command["stage"] + n * self.half + word
                    data = self.memory[command["base"] + n * 2 * self.half + beat]
                    raw = {i: data >> 8 * i & 255 for i in range(self.engine.lanes)}
                    todo.append(
                        bits(stage_layout(self.engine), {"value": value, "address": address, "data": raw})
                    )
            todo.append(None)
        return todo

    def expected(self, command, q):
        """Numerators [word][lane] and denominators [local head] of this channel, from the integer model."""
        shape, lanes, width = self.shape, self.engine.lanes, self.words * self.engine.lanes
        slots = np.array(self.mine(command["attend"]), int)
        heads = np.arange(self.heads) + self.column * self.heads
        real = heads[heads < shape.heads]
        k, v = self.truth[command["layer"]][:, slots].reshape(2, len(slots), self.columns * self.heads, width)
        distances = ops.slot_distances(shape, command["position"])[slots]
        query = q.reshape(-1, width)[real]
        scores = ops.attention_scores(query, k[:, real], distances, self.slopes[real], self.frac)
        weights = ops.attention_weights(scores)
        numerators = np.einsum("hs,shd->hd", weights, v[:, real]).reshape(-1, lanes)
        return numerators.tolist(), weights.sum(axis=1).tolist()


class Driver:
    """Runs attention operations one after the other, and compares the drained numbers."""

    def __init__(self, dut, place, mode="valid", idle="never"):
        engine = replace(card("sim2"), **parameters()["engine"])
        self.bench = bench = Bench(dut)
        self.ring = Ring(bench.rng, engine, place, mode)
        self.engine, self.dut, self.idle = engine, dut, stalls(bench.rng, idle)
        self.commands = Source(bench, "commands", KvCommand, idle=idle)
        self.cast = Source(bench, "cast", broadcast_layout(engine), idle=idle)
        self.loader = Loader(bench, self.ring, idle)
        self.writes = Sink(bench, "writes", write_layout(engine))
        self.done = Watch(bench, "att_done", event=self.finished)
        self.drain = Drain(bench, "drain", AttentionEngine.DRAIN_LATENCY, drain_layout(engine))
        self.operations, self.first_key, self.last_value = 0, None, None

    def finished(self):
        self.loader.unfinished -= 1

    async def setup(self):
        ring, dut, shape = self.ring, self.dut, self.ring.shape
        dut.ring.value = bits(
            RingShape,
            {
                "log_groups": ring.log_groups,
                "columns": ring.columns,
                "heads": ring.heads,
                "head_words": ring.words,
                "anchors": shape.anchors,
                "ring": shape.window + 1,
                "score_frac": ring.frac,
            },
        )
        dut.half.value = ring.half
        dut.group.value, dut.column.value, dut.active.value = ring.group, ring.column, int(ring.active)
        await self.bench.reset()
        raw = np.zeros(-(-ring.shape.heads * 2 // self.engine.lanes) * self.engine.lanes // 2, "<u2")
        raw[: ring.shape.heads] = ring.slopes
        for index, word in enumerate(np.split(raw, len(raw) * 2 // self.engine.lanes)):
            self.cast.send(
                [{"kind": BroadcastKind.SLOPE, "index": index, "word": beat_of(word.view(np.uint8))}]
            )

    def send_command(self, command):
        self.commands.send([{k: v for k, v in command.items() if k != "layer"}])
        self.loader.commands.append(command)

    async def operation(self, command):
        """Broadcast q, k, v, wait for the end, drain, compare."""
        ring, lanes, shape = self.ring, self.engine.lanes, self.ring.shape
        q = ring.vectors(ring.columns * ring.half * lanes)
        ring.truth[command["layer"], :, command["slot"]] = ring.vectors(2, len(q))
        words = shape.heads * ring.words  # padding heads are not sent
        for kind, vector in zip(
            (BroadcastKind.QUERY, BroadcastKind.KEY, BroadcastKind.VALUE),
            (q, *ring.truth[command["layer"], :, command["slot"]]),
        ):
            if kind == BroadcastKind.KEY:  # place of its first word among all broadcasts
                self.first_key = len(self.cast.cycles) + len(self.cast.queue)
            for index in range(words):
                self.last_value = len(self.cast.cycles) + len(self.cast.queue)
                last = kind == BroadcastKind.VALUE and index == words - 1
                word = beat_of(vector[index * lanes :][:lanes])
                self.cast.send([{"kind": kind, "index": index, "last": int(last), "word": word}])
                if self.bench.rng.random() < 0.1:
                    self.cast.send([{"kind": BroadcastKind.VECTOR, "index": index, "last": 1, "word": word}])
        if parameters().get("corrupt"):  # the design sees another q than the reference
            self.cast.queue[0] ^= 1 << (len(self.cast.payload) - 2)
        self.operations += 1
        written = self.writes.count
        await self.bench.until(lambda: self.done.count == self.operations, limit=5000)
        self.check_writes(command, written)
        await self.bench.step(AttentionEngine.DRAIN_AFTER - 1)  # the pulse was in the cycle before
        numerators, denominators = ring.expected(command, q)
        self.drain.answers.clear()
        for word in range(len(numerators)):
            self.drain.ask(Origin.WEIGHTED, word)
        self.drain.ask(Origin.WEIGHT)
        await self.bench.until(lambda: len(self.drain.answers) == len(numerators) + 1, limit=100)
        results = [word for *_, word in self.drain.answers]
        assert results[:-1] == numerators, f"numerators of {command}"
        assert results[-1][: len(denominators)] == denominators, f"denominators of {command}"

    def check_writes(self, command, first):
        """The current token's words of this channel went to the writer, and from there to the memory."""
        ring, expected = self.ring, {}
        if command["slot"] in ring.mine(ring.shape.slots):
            shape = ring.shape
            real = min(ring.heads, shape.heads - ring.column * ring.heads) * ring.words
            words = ring.slot_words(command["layer"], command["slot"])
            address = ring.address(command["layer"], command["slot"])
            for i, word in enumerate(words):
                if i % ring.half < real:
                    expected[address + i] = word
        got = {}
        for write in self.writes.received[first:]:
            data = sum((b & 255) << 8 * i for i, b in enumerate(write["data"]))
            assert write["io"] == 0 and write["address"] not in got
            got[write["address"]] = data
        assert got == expected
        ring.memory.update(got)

    async def run(self, positions):
        """All layers of the passes at `positions`; the command of the next operation is sent ahead where data
        allow."""
        await self.setup()
        layers = self.ring.shape.layers
        plan = [self.ring.command(layer, position) for position in positions for layer in range(layers)]
        sent = 0
        for i, command in enumerate(plan):
            while sent < len(plan) and sent <= i + (layers > 1):
                self.send_command(plan[sent])
                sent += 1
            await self.bench.step(AttentionEngine.SETTLING + 3)
            await self.bench.until(lambda: not self.commands.queue, limit=200)
            await self.bench.step(AttentionEngine.SETTLING + 1)
            await self.operation(command)
        await self.bench.until(lambda: not self.cast.queue, limit=200)  # a word that is not for attention
        await self.bench.finish()
        assert self.done.count == len(plan) > 0 and self.drain.count > 0
