"""Expectations of the bench of a whole channel: a small model's operations, one pass after the other."""

from dataclasses import replace

import numpy as np

from symlight.hw.channel.channel import Channel
from symlight.hw.channel.lanes import HEAD_WORDS
from symlight.hw.channel.runs import SCALE_BEATS
from symlight.hw.config import card
from symlight.hw.sequencer.dispatch import SPACING
from symlight.hw.sequencer.session import RESET_CYCLES
from symlight.hw.types import (
    BroadcastKind,
    ChannelCommand,
    KvCommand,
    RingShape,
    Work,
    broadcast_layout,
    drain_layout,
)
from symlight.hw.types import Source as Origin
from symlight.model import ops
from tests.benches.bench import Bench, bits, parameters
from tests.benches.channel.attention_bench import Ring
from tests.benches.channel.channel_agents import DrainChecker, Pulses, Reads, Writes
from tests.benches.channel.channel_bench import Watch, beat_of
from tests.benches.channel.memory_bench import beat_at

POINTER, IO_POINTER = 0x7_FFFF_E000, 0x1_2340_5000  # sums carry far
COLUMNS = [1, 2, 3, 4, 8]


class ChannelBench:
    """Runs passes of a small model's operations through one channel, with everything it computes compared."""

    def __init__(self, dut, place="grouped", mode="valid", memory="never", cast="never", delay=20):
        self.dut, self.bench = dut, Bench(dut)
        bench, engine = self.bench, replace(card("sim8"), **parameters()["engine"])
        self.engine, self.rng = engine, bench.rng
        self.ring = Ring(bench.rng, engine, place, mode)
        self.index = self.ring.group * self.ring.columns + self.ring.column
        self.contents = {POINTER + beat * engine.beat_bytes: word for beat, word in self.ring.memory.items()}
        self.commands = Pulses(bench, "command", ChannelCommand, "command_room", SPACING)
        self.kv = Pulses(bench, "kv", KvCommand, "kv_room", SPACING)
        self.casts = Pulses(bench, "cast", broadcast_layout(engine), idle=cast)
        self.drains = DrainChecker(bench, engine.lanes, drain_layout(engine))
        self.done, self.attended = Watch(bench, "op_done"), Watch(bench, "attention_done")
        beat, stalls = engine.beat_bytes, {"stall": memory, "delay": delay}
        self.reads = Reads(bench, self.contents, beat, idle=memory, bus="bus__read", **stalls)
        self.writes = Writes(bench, self.contents, beat, bus="bus__write", **stalls)
        self.traffic, self.side, self.operations = dict.fromkeys(range(16), 0), [], 0

    async def setup(self):
        ring, shape, dut, lanes = self.ring, self.ring.shape, self.dut, self.engine.lanes
        dut.index.value, dut.pointer.value, dut.io_pointer.value = self.index, POINTER, IO_POINTER
        dut.abort.value = dut.clear.value = 0
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
        await self.bench.reset(RESET_CYCLES)
        dut.clear.value = 1
        await self.bench.step()
        dut.clear.value = 0
        raw = np.zeros(-(-shape.heads * 2 // lanes) * lanes // 2, "<u2")
        raw[: shape.heads] = ring.slopes
        for index, word in enumerate(np.split(raw, len(raw) * 2 // lanes)):
            self.casts.send(
                [{"kind": BroadcastKind.SLOPE, "index": index, "word": beat_of(word.view(np.uint8))}]
            )

    # -- Operations: a command, and what must come of it

    def _bytes(self, first, beats, pointer=POINTER):
        """Beats of the memory as signed bytes, [beat][lane]."""
        size = self.engine.beat_bytes
        places = [pointer + (first + k) * size for k in range(beats)]
        raw = b"".join(
            self.contents.get(place, beat_at(place, size)).to_bytes(size, "little") for place in places
        )
        return np.frombuffer(raw, np.int8).reshape(-1, size)

    def _vector(self, words):
        """A vector with many zeros and extremes."""
        rng = np.random.default_rng(self.rng.getrandbits(32))
        values = rng.choice([-128, -127, -1, 1, 127], words * self.engine.lanes)
        return values * (rng.random(len(values)) < self.rng.choice([0, 0.1, 0.4, 1]))

    def matrix(self, stream):
        """A random MATRIX command: (command, vector, requests, answers)."""
        rng, lanes = self.rng, self.engine.lanes
        log_groups, columns = rng.randrange(4), rng.choice(COLUMNS)
        words, beats = rng.randrange(1, 5), rng.choice([1, 2, 5])
        command = {
            "work": Work.MATRIX,
            "stream": stream,
            "base": 0x10000 + rng.randrange(5000),
            "words": words,
            "beats": beats,
            "log_groups": log_groups,
            "columns": columns,
            "acc": rng.randrange(self.engine.accumulators - HEAD_WORDS - beats + 1),
            "traffic": rng.randrange(7),
        }
        vector, group, column = self._vector(words), self.index // columns, self.index % columns
        answers = np.zeros((beats, lanes), np.int64)
        if group < 1 << log_groups:
            mine = vector[group :: 1 << log_groups]
            weights = self._bytes(command["base"], len(mine) * beats).reshape(len(mine), beats * lanes)
            answers = ops.matvec(weights.T.astype(np.int64), mine).reshape(beats, lanes)
            self.traffic[command["traffic"]] += beats * (len(mine) if stream else int(np.count_nonzero(mine)))
        return self._with_other_columns(
            command, vector, column, columns, Origin.ACC, command["acc"], answers.tolist()
        )

    def _with_other_columns(self, command, vector, column, columns, source, first, answers):
        """Requests for `answers`, with some for another column, which get zeros, in between."""
        requests, expected = [], []
        for k, answer in enumerate(answers):
            if columns > 1 and self.rng.random() < 0.3:
                requests.append(
                    {
                        "source": source,
                        "address": first + k,
                        "column": (column + 1) % columns,
                        "columns": columns,
                    }
                )
                expected.append([0] * self.engine.lanes)
            requests.append({"source": source, "address": first + k, "column": column, "columns": columns})
            expected.append(answer)
        return command, vector, requests, expected

    def head(self):
        rng, lanes, channels = self.rng, self.engine.lanes, self.engine.channels
        words, count = rng.randrange(1, 4), rng.randrange(1, 4)
        command = {
            "work": Work.HEAD,
            "stream": 1,
            "base": 0x8000 + rng.randrange(1000),
            "words": words,
            "count": count,
            "columns": channels,
            "traffic": 6,
        }
        vector = self._vector(words)
        size = words * lanes + SCALE_BEATS
        best = None
        for tile in range(count):
            data = self._bytes(command["base"] + tile * size, size)
            scales = np.frombuffer(data[-SCALE_BEATS:].tobytes(), "<u2").astype(np.int64)
            logits = ops.head_logits(ops.matvec(data[:-SCALE_BEATS].T.astype(np.int64), vector), scales)
            for lane in range(lanes):
                if scales[lane] and (best is None or logits[lane] > best[0]):
                    best = int(logits[lane]), (tile * channels + self.index) * lanes + lane
        self.traffic[6] += count * size
        low = ((best[0] & 0xFFFFFFFF) ^ (1 << 31)) - (1 << 31)
        answer = [low, best[0] >> 32, best[1], 1] + [0] * (lanes - 4)
        return self._with_other_columns(command, vector, self.index, channels, Origin.BEST, 0, [answer])

    def send_side(self, io=0):
        """A DIRECT_READ command of this channel and one of another."""
        count, base = self.rng.randrange(1, 6), self.rng.randrange(2000)
        side = {
            "work": Work.DIRECT_READ,
            "io": io,
            "base": base,
            "count": count,
            "channel": self.index,
            "traffic": 8 + io,
        }
        self.commands.send([side, {**side, "channel": self.index ^ 1}])
        self.traffic[8 + io] += count
        beats = self._bytes(base, count, IO_POINTER if io else POINTER)
        self.side += [int.from_bytes(beat.tobytes(), "little") for beat in beats]

    # -- Passes

    def send_vector(self, vector):
        lanes = self.engine.lanes
        self.casts.send(
            [{"kind": BroadcastKind.VECTOR, "word": beat_of(word)} for word in vector.reshape(-1, lanes)]
        )

    def send_qkv(self, command):
        ring, lanes = self.ring, self.engine.lanes
        q = ring.vectors(ring.columns * ring.half * lanes)
        new = ring.truth[command["layer"], :, command["slot"]] = ring.vectors(2, len(q))
        words = ring.shape.heads * ring.words  # padding heads are not sent
        for kind, vector in zip(
            (BroadcastKind.QUERY, BroadcastKind.KEY, BroadcastKind.VALUE), (q, *new), strict=True
        ):
            for i in range(words):
                last, word = (
                    kind == BroadcastKind.VALUE and i == words - 1,
                    beat_of(vector[i * lanes :][:lanes]),
                )
                self.casts.send([{"kind": kind, "index": i, "last": int(last), "word": word}])
        return q

    async def _ask(self, requests):
        self.drains.answers.clear()
        self.drains.queue += requests
        await self.bench.until(lambda: len(self.drains.answers) == len(requests), limit=200)

    async def _compare(self, requests, answers, what):
        await self._ask(requests)
        assert self.drains.answers == answers, what

    async def _operation(self, operation, attention=None, limit=20_000):
        """Broadcast an operation's vector, beside attention if there is some; wait, drain, compare."""
        command, vector, requests, answers = operation
        before, q = self.attended.count, None
        if attention:
            q = self.send_qkv(attention)
        self.send_vector(vector)
        self.operations += 1
        await self.bench.until(lambda: self.done.count == self.operations, limit)
        await self.bench.step(Channel.DRAIN_GUARD - 1)  # the pulse was in the cycle before
        await self._compare(requests, answers, command)
        if attention:
            await self.bench.until(lambda: self.attended.count == before + 1, limit)
            numerators, denominators = self.ring.expected(attention, q)
            place = {"column": self.ring.column, "columns": self.ring.columns}
            await self._compare(
                [{"source": Origin.WEIGHTED, "address": k, **place} for k in range(len(numerators))],
                numerators,
                attention,
            )
            # Lanes beyond the column's real heads mean nothing.
            await self._ask([{"source": Origin.WEIGHT, **place}])
            assert self.drains.answers[0][: len(denominators)] == denominators, attention

    async def run_pass(self, position):
        """All commands at once; then operation after operation as the vector unit works them off."""
        plan = []
        if self.rng.random() < 0.5:
            self.send_side()
        for layer in range(self.ring.shape.layers):
            kv = self.ring.command(layer, position)
            first, second, third = self.matrix(0), self.matrix(0), self.matrix(1)
            self.kv.send([{k: v for k, v in kv.items() if k != "layer"}])
            self.commands.send([first[0], {"work": Work.FENCE}, second[0], third[0]])
            self.traffic[7] += len(self.ring.mine(kv["load"])) * 2 * self.ring.half
            plan += [(first, None), (second, kv), (third, None)]
        plan.append((self.head(), None))
        self.commands.send([plan[-1][0][0]])
        # never beside a drain
        await self.bench.until(lambda: len(self.drains.side) == len(self.side), limit=2000)
        for operation, attention in plan:
            await self._operation(operation, attention)

    async def write_io(self, count):
        """Words to the io buffer; only channel 0 writes them."""
        words = {}
        while len(words) < count:
            words[self.rng.choice([0, self.rng.randrange(2000)])] = list(
                self.rng.randbytes(self.engine.lanes)
            )
        self.casts.send(
            [
                {"kind": BroadcastKind.WRITE, "address": a, "word": dict(enumerate(w))}
                for a, w in words.items()
            ]
        )
        await self.bench.until(lambda: not self.casts.queue, limit=5000)
        await self.bench.step(5)
        await self.bench.until(lambda: int(self.dut.write_quiet.value), limit=20_000)
        return {
            IO_POINTER + a * self.engine.beat_bytes: int.from_bytes(bytes(w), "little")
            for a, w in words.items()
        }

    async def finish(self):
        """Counters, side beats, the ring in memory; nothing is left over."""
        await self.bench.finish()
        assert int(self.dut.quiet.value) and int(self.dut.write_quiet.value) and not int(self.dut.fault.value)
        place = {"column": self.index, "columns": self.engine.channels}
        lanes = [0] * (self.engine.lanes - 2)
        await self._compare(
            [{"source": Origin.COUNTER, "address": kind, **place} for kind in range(16)],
            [[self.traffic[kind] & 0xFFFF, self.traffic[kind] >> 16, *lanes] for kind in range(16)],
            "counters",
        )
        assert self.drains.side == self.side
        assert self.done.count == self.operations > 0
        assert self.reads.beats == sum(self.traffic.values())
