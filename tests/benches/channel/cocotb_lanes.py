"""Bench of LaneGroup: commands, drains while others add, the head and its logits, the side output."""

from dataclasses import replace

import cocotb
import numpy as np

from symlight.hw.channel.lanes import HEAD_WORDS, LaneGroup
from symlight.hw.config import card
from symlight.hw.types import ChannelCommand, Item, Work, drain_layout, write_layout
from symlight.hw.types import Source as Origin
from symlight.model import ops
from symlight.model.sampling import CANDIDATES
from tests.benches.bench import Bench, Sink, Source, parameters
from tests.benches.channel.channel_bench import Drain, Watch

LIMIT = {"timeout_time": 2_000_000, "timeout_unit": "ns"}
INDEX = 1
LOGIT_BASE = 0xABCD00


def engine():
    return replace(card("sim2"), **parameters()["engine"])


class Program:
    """Random commands with their items and beats, and what has to come of them."""

    def __init__(self, rng, engine):
        self.rng, self.engine = rng, engine
        self.commands, self.items, self.beats = [], [], []
        self.operations = []  # of each op_done: requests to ask
        self.answers, self.side = [], []
        self.written = []  # beats of logits
        self.rows = []  # (logit, id) of the newest head's rows, without padding

    def weights(self, *shape):
        """Random int8 numbers with many extreme ones."""
        numpy_rng = np.random.default_rng(self.rng.getrandbits(32))
        extremes = numpy_rng.choice([-128, -127, 0, 127], shape)
        return np.where(numpy_rng.random(shape) < 0.3, extremes, numpy_rng.integers(-128, 128, shape))

    def _beat(self, numbers):
        return int.from_bytes(bytes(int(v) & 255 for v in numbers), "little")

    def _item(self, value, last, row=True):
        self.items.append({"value": int(value), "valid_row": int(row), "last": int(last)})

    def matrix(self, acc, beats, rows, marker=None, values=None, weights=None):
        """`marker`: end with an item without row (needed when there are no rows)."""
        marker = marker if marker is not None else not rows or self.rng.random() < 0.5
        values = self.weights(rows) if values is None else values
        weights = self.weights(rows, beats * self.engine.lanes) if weights is None else weights
        self.commands.append(
            {"work": Work.MATRIX, "acc": acc, "beats": beats, "stream": self.rng.getrandbits(1)}
        )
        for i in range(rows):
            if marker and self.rng.random() < 0.1:
                self._item(55, last=False, row=False)
            self._item(values[i], last=not marker and i == rows - 1)
            self.beats += [self._beat(part) for part in np.split(weights[i], beats)]
        if marker:
            self._item(99, last=True, row=False)
        sums = ops.matvec(weights.T, values) if rows else np.zeros(beats * self.engine.lanes, np.int64)
        self.operations.append([(Origin.ACC, acc + b) for b in range(beats)])
        self.answers += [(Origin.ACC, acc + b, part.tolist()) for b, part in enumerate(np.split(sums, beats))]

    def head(self, tiles, rows, values=None, weights=None, scales=None, marker=None, written=None):
        """A head, and a matrix after it: the next head would forget the best row before it is drained."""
        lanes, engine = self.engine.lanes, self.engine
        written = self.rng.getrandbits(1) if written is None else written
        command = {"work": Work.HEAD, "count": tiles, "words": 1, "stream": 1, "logits": int(written)}
        self.commands.append(command | {"candidates": self.rng.getrandbits(1)})
        values = self.weights(rows) if values is None else values
        weights = self.weights(tiles, lanes, rows) if weights is None else weights
        if scales is None:
            scales = np.random.default_rng(self.rng.getrandbits(32)).integers(0, 65536, (tiles, lanes))
            scales *= np.random.default_rng(self.rng.getrandbits(32)).random((tiles, lanes)) < 0.8
        marker = not rows or self.rng.random() < 0.3 if marker is None else marker
        ids, logits = [], []
        for t in range(tiles):
            for i in range(rows):
                self._item(values[i], last=not marker and i == rows - 1)
                self.beats.append(self._beat(weights[t, :, i]))
            if marker:
                self._item(11, last=True, row=False)
            raw = scales[t].astype("<u2").tobytes()
            self.beats += [self._beat(raw[:lanes]), self._beat(raw[lanes:])]
            logits += ops.head_logits(ops.matvec(weights[t], values), scales[t]).tolist()
            ids += [(t * engine.channels + INDEX) * lanes + lane for lane in range(lanes)]
        if written:
            raw = np.array(logits, "<i8").view(np.uint8).reshape(-1, engine.beat_bytes).tolist()
            self.written += [{"io": 0, "address": LOGIT_BASE + i, "data": beat} for i, beat in enumerate(raw)]
        real = [(logit, i) for logit, i, scale in zip(logits, ids, scales.reshape(-1)) if scale]
        self.rows = real
        best = real[ops.argmax(np.array([logit for logit, _ in real]))] if real else None
        logit, row = best or (0, 0)
        words = [((logit & 0xFFFFFFFF) ^ (1 << 31)) - (1 << 31), logit >> 32, row, int(bool(best))]
        self.operations.append([(Origin.BEST, 0)])
        self.answers.append((Origin.BEST, 0, words + [0] * (lanes - 4)))
        self.matrix(engine.accumulators - HEAD_WORDS - 1, 1, 12)

    def other(self):
        """A command without op_done."""
        kind = self.rng.choice(["fence", "side", "not mine"])
        count = self.rng.randrange(1, 6)
        if kind == "fence":
            self.commands.append({"work": Work.FENCE})
            return
        self.commands.append(
            {"work": Work.DIRECT_READ, "count": count, "channel": INDEX if kind == "side" else INDEX ^ 1}
        )
        if kind == "side":
            data = [self._beat(self.weights(self.engine.lanes)) for _ in range(count)]
            self.beats += data
            self.side += data

    async def run(self, bench, idle="never", stall="never", others=0):
        """Send everything, drain each operation as soon as it is done, compare. Returns the agents."""
        dut = bench.dut
        commands = Source(bench, "commands", ChannelCommand, idle=idle)
        items = Source(bench, "items", Item, idle=idle)
        beats = Source(bench, "beats", None, idle=idle)
        drain = Drain(bench, "drain", LaneGroup.DRAIN_LATENCY, drain_layout(self.engine))
        drain.others = others
        todo = iter(self.operations)

        def finished():
            for request in next(todo):
                drain.ask(*request, after=LaneGroup.DRAIN_GUARD)

        done = Watch(bench, "op_done", event=finished)
        side = Watch(bench, "side__valid", "side__data")
        logits = Sink(bench, "logits", write_layout(self.engine), stall=stall)
        dut.index.value, dut.logit_base.value = INDEX, LOGIT_BASE
        await bench.reset()
        commands.send(self.commands)
        items.send(self.items)
        beats.send(self.beats)
        if parameters().get("corrupt"):  # the design sees another beat than the reference
            beats.queue[::7] = [beat ^ 1 for beat in beats.queue[::7]]
        total = len(self.answers)
        await bench.until(
            lambda: (drain.count, side.count, logits.count) == (total, len(self.side), len(self.written)),
            limit=60_000,
        )
        await bench.finish()
        assert done.count == len(self.operations)
        assert drain.answers == self.answers
        assert side.values == self.side
        assert [flat(beat) for beat in logits.received] == [flat(beat) for beat in self.written]
        return commands, items, beats, done


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts", "rare"])
async def random_commands(dut, idle):
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    words = engine().accumulators - HEAD_WORDS - 1  # the last one is used after a head
    used = 0
    for _ in range(24):
        kind = bench.rng.random()
        if kind < 0.2:
            program.other()
        elif kind < 0.35:
            program.head(bench.rng.randrange(1, 4), bench.rng.randrange(1, 40))
        else:
            beats = bench.rng.choice([1, 1, 2, 3, min(6, words // 4)])
            rows = bench.rng.choice([0, 1, 2, 3, 20])
            if used + beats > words:
                used, rows = 0, 2 * words  # long enough that the drains of those before are over
            program.matrix(used, beats, rows)
            used += beats
    await program.run(bench, idle, stall=idle, others=4)


@cocotb.test(**LIMIT)
@cocotb.parametrize(stall=["never", "random", "slow", "bursts"])
async def logits_of_every_row(dut, stall):
    """Ties, padding and negative logits come out in order, whatever the writer does, and the best row too."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    equal = np.full((3, lanes, 5), 7)
    program.head(3, 5, weights=equal, values=np.full(5, -3), scales=np.full((3, lanes), 65535), written=True)
    program.head(2, 40, written=True)
    program.head(2, 40, written=False)
    program.head(1, 0, written=True)  # a tile without rows: zeros
    for _ in range(3):
        program.head(bench.rng.randrange(1, 4), bench.rng.randrange(1, 30), written=True)
    assert len(program.written) >= 9 * 8
    await program.run(bench, stall=stall, others=2)


@cocotb.test(**LIMIT)
@cocotb.parametrize(tiles=[1, 6], equal=[False, True], stall=["never", "slow"])
async def candidates_in_order(dut, tiles, equal, stall):
    """The rows behind the best one, one by one, as far as the list goes; a busy list is asked again."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    weights = np.full((tiles, engine().lanes, 5), 7) if equal else None
    scales = np.full((tiles, engine().lanes), 65535) if equal else None
    program.head(2, 5)  # the rows of a head before mean nothing, however far its list is
    program.commands[-2]["candidates"] = 1
    for word in range(bench.rng.choice([0, 6])):
        program.matrix(word, 1, 40)
    program.head(tiles, 5, values=np.full(5, -3), weights=weights, scales=scales, written=stall != "never")
    program.commands[-2]["candidates"] = 1  # a matrix follows the head
    await program.run(bench, stall=stall)
    bench.agents = [agent for agent in bench.agents if not isinstance(agent, Drain)]
    drain, found = Drain(bench, "drain", LaneGroup.DRAIN_LATENCY, drain_layout(engine())), []
    while True:
        count = drain.count
        drain.ask(Origin.NEXT)
        await bench.until(lambda count=count: drain.count > count, limit=10)
        low, high, token, state = drain.answers[-1][2][:4]
        if state & 2:
            assert bench.cycle < 200_000
            continue
        if not state & 1:
            break
        found.append(((high << 32) | (low & 0xFFFFFFFF), token))
    order = sorted(program.rows, key=lambda row: (-row[0], row[1]))[:CANDIDATES]
    assert found == order[1:]


@cocotb.test(**LIMIT)
@cocotb.parametrize(beats=[1, 2, 5])
async def one_beat_a_cycle(dut, beats):
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    for i in range(3):
        program.matrix(5 * i, beats, 12, marker=False)
    commands, items, taken, done = await program.run(bench)
    first = taken.cycles[0]
    assert taken.cycles == list(range(first, first + 36 * beats)), "beats are taken with bubbles"
    ends = [items.cycles[12 * i + 11] for i in range(3)]
    assert done.cycles == [cycle + LaneGroup.LATENCY for cycle in ends]


@cocotb.test(**LIMIT)
async def nothing_active(dut):
    """Commands without a row complete, with zeros, one a cycle, also in words that held sums before."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    program.matrix(0, 4, 8)
    program.matrix(8, 1, 0)
    program.matrix(9, 1, 0)
    for _ in range(2):
        program.head(1, 8)  # time for the drains
        program.matrix(0, 4, 0)
    *_, done = await program.run(bench)
    assert done.cycles[2] == done.cycles[1] + 1 == done.cycles[0] + 2


@cocotb.test(**LIMIT)
async def extreme_sums(dut):
    """As many rows as a matrix and a head may have, of the largest products, in both directions: the sums
    need every bit."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    rows = engine().vector_words * lanes
    program.matrix(0, 1, rows, values=np.full(rows, -128), weights=extremes(rows, lanes))
    assert program.answers[0][2][:2] == [rows * 128 * 128, rows * -128 * 127]
    rows = 2 * engine().width_words * lanes
    scales = np.full((1, lanes), 65535)
    program.head(1, rows, values=np.full(rows, -128), weights=extremes(rows, lanes).T[None], scales=scales)
    assert program.answers[1][2][1] == rows * 128 * 128 * 65535 >> 32
    await program.run(bench)


def extremes(rows, lanes):
    weights = np.full((rows, lanes), 127)
    weights[:, ::2] = -128
    return weights


@cocotb.test(**LIMIT)
async def head_ties_and_padding(dut):
    """The lowest id wins a tie, rows of scale 0 never win, an all-zero head has no best row."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    for case in range(6):
        weights, scales = program.weights(3, lanes, 5), np.full((3, lanes), 65535)
        values = np.full(5, -3)
        if case == 0:
            scales[:] = 0
        if case == 1:  # all equal and negative: the first row with a scale
            weights[:] = 7
            scales[0, :9] = 0
        if case == 2:  # the best row is padding
            weights[1, 4] = -128
            weights[2, 4] = -120
            scales[1, 4] = 0
        if case == 3:  # tie between tiles
            weights[0, 15] = weights[2, 0] = weights[2, 1] = -128
        if case == 4:  # all negative
            weights[:] = np.abs(weights) // 2 + 1
        program.head(3, 5, values=values, weights=weights, scales=scales)
    program.head(2, 0)  # tiles without rows: all sums are zero
    await program.run(bench)


@cocotb.test(**LIMIT)
async def tiles_beside_drains(dut):
    """A tile is summed while the words of the matrix before it are drained: requests go first."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    for rows in range(1, 8):
        program.matrix(0, 5, 4, marker=False)
        program.head(2, rows, marker=False)
    await program.run(bench)


@cocotb.test(**LIMIT)
@cocotb.parametrize(written=[False, True])
async def head_streams(dut, written):
    """Tiles follow each other without a bubble, and the last one drains in the stated time."""
    bench = Bench(dut)
    program = Program(bench.rng, engine())
    lanes = engine().lanes
    weights, scales = program.weights(3, lanes, 2 * lanes), np.full((3, lanes), 1000)
    program.head(3, 2 * lanes, weights=weights, scales=scales, marker=False, written=written)
    *_, beats, done = await program.run(bench)
    first, total = beats.cycles[0], 3 * (2 * lanes + 2)
    assert beats.cycles[:total] == list(range(first, first + total))
    # the last beat of logits leaves a cycle later
    assert done.cycles[0] == beats.cycles[total - 1] + LaneGroup(engine=engine()).HEAD_LATENCY + written


def flat(beat):
    """A written beat in comparable form."""
    return beat["io"], beat["address"], [int(byte) for byte in beat["data"]]


@cocotb.test(**LIMIT)
async def reset_forgets(dut):
    """A reset in the middle of a command leaves nothing over."""
    bench = Bench(dut)
    stale = Program(bench.rng, engine())
    stale.matrix(0, 3, 20)
    stale.head(2, 30)
    commands = Source(bench, "commands", ChannelCommand)
    items, beats = Source(bench, "items", Item), Source(bench, "beats", None)
    dut.index.value, dut.logits__ready.value = INDEX, 1
    await bench.reset()
    commands.send(stale.commands)
    items.send(stale.items)
    beats.send(stale.beats)
    await bench.step(bench.rng.choice([10, 40, 62, 75, 100, 120]))
    bench.agents.clear()
    for agent in (commands, items, beats):
        agent.idle()
    program = Program(bench.rng, engine())
    program.matrix(0, 3, 0)
    program.head(2, 30)
    program.matrix(0, 3, 5)
    await program.run(bench)
