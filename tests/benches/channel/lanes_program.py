"""Commands for the lanes, the beats that they read, and what must come of them."""

from dataclasses import replace

import numpy as np

from symlight.hw.channel.lanes import HEAD_WORDS, LaneGroup
from symlight.hw.config import card
from symlight.hw.types import ChannelCommand, Item, Work, drain_layout, write_layout
from symlight.hw.types import Source as Origin
from symlight.model import ops
from tests.benches.bench import Sink, Source, parameters
from tests.benches.channel.channel_bench import Drain, Watch

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

    def head(
        self, tiles, rows, values=None, weights=None, scales=None, marker=None, written=None, listed=None
    ):
        """A head, and a matrix after it: the next head would forget the best row before it is drained."""
        lanes, engine = self.engine.lanes, self.engine
        written = self.rng.getrandbits(1) if written is None else written
        command = {"work": Work.HEAD, "count": tiles, "words": 1, "stream": 1, "logits": int(written)}
        listed = self.rng.getrandbits(1) if listed is None else listed
        self.commands.append(command | {"candidates": int(listed)})
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


def flat(beat):
    """A written beat in comparable form."""
    return beat["io"], beat["address"], [int(byte) for byte in beat["data"]]
