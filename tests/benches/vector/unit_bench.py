"""The whole vector unit with its expected results."""

import numpy as np

from symlight.hw.types import BroadcastKind, Task
from symlight.hw.vector.attention import FusionPath
from symlight.hw.vector.event import Eventise, StepThreshold
from symlight.hw.vector.gelu import Gelu
from symlight.hw.vector.layernorm import LayerNormStatistics
from symlight.hw.vector.requantise import Requantise
from symlight.hw.vector.residual import ResidualPath
from symlight.hw.vector.session_state import DecayPath
from symlight.hw.vector.unit import CAST_REGISTERS, VectorUnit
from symlight.hw.vector.words import Route
from symlight.model import ops
from symlight.model.config import Numerics
from tests.benches.bench import Bench, parameters, stalls
from tests.benches.sequencer.sequencer_bench import Ports
from tests.benches.vector.paths_bench import UNIT_ENGINE as ENGINE
from tests.benches.vector.paths_bench import Timeline, integers, times
from tests.benches.vector.vector_bench import numbers

DRAIN = parameters().get("drain", 5)
LANES, WORDS = ENGINE.lanes, ENGINE.width_words
RESIDUAL, FUSION = ResidualPath(ENGINE), FusionPath(ENGINE)
Y = DRAIN + Requantise.LATENCY  # a requantised word, from its op
STATISTICS, SOON = LayerNormStatistics(LANES, WORDS).LATENCY, LayerNormStatistics.SOON
NUMERICS = Numerics()


class Unit:
    """The vector unit on a timeline, and the model's view of its memories."""

    def __init__(self, dut, idle="never"):
        self.bench = Bench(dut)
        self.rng = np.random.default_rng(self.bench.seed)
        self.ports = Ports(dut, VectorUnit(ENGINE, drain_latency=DRAIN), "unit")
        self.idle = stalls(self.bench.rng, idle)
        self.time = Timeline(
            self.bench,
            self.ports,
            (
                "op_valid",
                "side_valid",
                "embed_start",
                "parameter_write__valid",
                "gelu_write__valid",
                "state_write__valid",
                "membrane_write__valid",
            ),
            {
                "cast_valid": ("cast",),
                "done": (),
                "statistics_done": (),
                "probe_valid": ("probe", "probe_tag"),
                "dump_valid": ("dump_word",),
                "active_valid": ("active",),
            },
        )
        self.state = np.zeros((ENGINE.state_words, LANES), np.int64)
        self.membrane = np.zeros((WORDS, LANES), np.int64)
        self.next_parameter = 0

    async def start(self):
        header = {
            "width": WORDS * LANES,
            "inv_width": ops.inv_width(WORDS * LANES),
            "lif_leak": NUMERICS.lif_leak,
            "lif_threshold": NUMERICS.lif_threshold,
            "lif_clamp": NUMERICS.lif_clamp,
        }
        self.ports.set(header=header, head_pass=1, embed_active=0, entry={"task": Task.END})
        await self.bench.reset()
        self.table = self.rng.integers(-127, 128, 256)
        for i in range(256 // LANES):
            values = integers(self.table[i * LANES : (i + 1) * LANES])
            self.time.put(
                self.bench.cycle + i, gelu_write__valid=1, gelu_write__address=i, gelu_write__word=values
            )
        for i in range(max(len(self.state), WORDS)):
            cycle = self.bench.cycle + i
            if i < len(self.state):
                self.state[i] = numbers(self.rng, 16, LANES)
                self.time.put(
                    cycle,
                    state_write__valid=1,
                    state_write__address=i,
                    state_write__word=integers(self.state[i]),
                )
            if i < WORDS:
                self.membrane[i] = self.rng.integers(-6144, 6145, LANES)
                self.time.put(
                    cycle,
                    membrane_write__valid=1,
                    membrane_write__address=i,
                    membrane_write__word=integers(self.membrane[i]),
                )
        await self.time.play()
        await self.bench.until(lambda: not self.ports.get("gelu_busy"), limit=400)

    async def load(self, words: list) -> int:
        """Parameter words into memory, each a list of field dicts of a 48-bit layout; returns the first
        address."""
        first = self.next_parameter
        self.next_parameter = (first + len(words)) % (ENGINE.parameter_words - 16)
        for i, values in enumerate(words):
            self.time.put(
                self.bench.cycle + i,
                parameter_write__valid=1,
                parameter_write__address=first + i,
                parameter_write__word=values,
            )
        await self.time.play(margin=1)
        return first

    def result(self, source, word, index, *, kind=BroadcastKind.VECTOR, last=0, done=False):
        """A broadcast word whose path has it in cycle `source`."""
        cast = {
            "kind": kind.value,
            "last": last,
            "index": index,
            "address": 0,
            "word": [int(x) & 0xFF for x in word],
        }
        self.time.expect(source + CAST_REGISTERS, "cast_valid", cast=cast)
        if kind is BroadcastKind.VECTOR:
            self.time.expect(source + 3, "active_valid", active=int(np.count_nonzero(word)))
        if done:
            self.time.expect(source + 1, "done")

    def issue(self, route, count, bus=None, **fields):
        """`count` word ops, with gaps; `fields` are functions of the word's number. Returns their cycles."""
        cycles = times(self.bench, self.idle, count)
        for i, cycle in enumerate(cycles):
            op = {"route": route, "index": i, "first": int(i == 0), "last": int(i == count - 1)}
            self.time.put(cycle, op_valid=1, op=op | {name: value(i) for name, value in fields.items()})
            if bus is not None:
                self.time.put(cycle + DRAIN, bus=integers(bus[i]))
        return cycles

    def scales(self, count, threshold=None):
        """Random (multiplier, shift, extra) of `count` words, and the packed parameter words."""
        size = (count, LANES)
        multiplier, shift = numbers(self.rng, 15, size, signed=False), self.rng.integers(1, 30, size)
        extra = np.maximum(1, numbers(self.rng, 20, size, signed=False)) if threshold is None else threshold
        words = [
            [int(m) | int(s) << 15 | int(t) << 21 for m, s, t in zip(*row, strict=True)]
            for row in zip(multiplier, shift, extra, strict=True)
        ]
        return (multiplier, shift, extra), words

    async def events(self, count=2):
        """QKV: q, k and v words of the head space."""
        accumulators = numbers(self.rng, ENGINE.matrix_bits, (3 * count, LANES))
        (multiplier, shift, threshold), words = self.scales(3 * count)
        first = await self.load(words)
        e = ops.event(accumulators, threshold, multiplier, shift)
        kinds = (BroadcastKind.QUERY, BroadcastKind.KEY, BroadcastKind.VALUE)
        cycles = self.issue(
            Route.EVENT,
            3 * count,
            accumulators,
            parameter=lambda i: first + i,
            sub=lambda i: i % count,
            kind=lambda i: kinds[i // count],
        )
        for i, cycle in enumerate(cycles):
            last = i == 3 * count - 1
            self.result(
                cycle + DRAIN + Eventise.LATENCY,
                e[i],
                i % count,
                kind=kinds[i // count],
                last=int(last),
                done=last,
            )
        await self.time.play()

    async def decay(self, base, count):
        accumulators = numbers(self.rng, ENGINE.matrix_bits, (count, LANES))
        beta = numbers(self.rng, 16, (count, LANES), signed=False)
        (multiplier, shift, _), words = self.scales(count, beta)
        first = await self.load(words)
        cycles = self.issue(
            Route.DECAY, count, accumulators, parameter=lambda i: first + i, state=lambda i: base + i
        )
        for i in range(count):
            z = ops.decay_input(accumulators[i], multiplier[i], shift[i])
            self.state[base + i] = ops.decay_step(self.state[base + i], z, beta[i])
        self.time.expect(cycles[-1] + Y + DecayPath(ENGINE).LATENCY + 1, "done")
        await self.time.play()

    async def mix(self, base):
        """Reciprocals of all heads, then a numerator word a head."""
        heads = ENGINE.heads
        gains = {
            "multiplier_a": int(self.rng.integers(0, 1 << 15)),
            "multiplier_b": int(self.rng.integers(0, 1 << 15)),
            "shift_a": int(self.rng.integers(10, 22)),
        }
        self.ports.set(entry={"task": Task.MIX} | gains)
        den = numbers(self.rng, 24, heads, signed=False)
        den[self.rng.integers(0, heads)] = 0
        bus = np.zeros((heads, LANES), np.int64)
        bus[0, :heads] = den  # all in one drained word; the others are not looked at
        bus[1:] = numbers(self.rng, 32, (heads - 1, LANES))
        cycles = times(self.bench, self.idle, heads)
        for i, cycle in enumerate(cycles):
            op = {"route": Route.WEIGHT, "index": i, "sub": i, "fresh": int(i == 0), "last": 0}
            self.time.put(cycle, op_valid=1, op=op)
            self.time.put(cycle + DRAIN, bus=integers(bus[i]))
        await self.bench.step(cycles[-1] - self.bench.cycle + 1)
        wait = FUSION.RECIPROCAL_LATENCY - (self.bench.cycle + 1 - cycles[-1])
        await self.bench.step(max(0, wait))
        limit = 127 * den[:, None]
        num = np.clip(numbers(self.rng, 32, (heads, LANES)), -limit, limit)
        m = ops.mix(ops.divide(num, den[:, None]), self.state[base : base + heads], *gains.values())
        cycles = self.issue(Route.MIX, heads, num, sub=lambda i: i, state=lambda i: base + i)
        for i, cycle in enumerate(cycles):
            self.result(cycle + DRAIN + FUSION.LATENCY, m[i], i, done=i == heads - 1)
        await self.time.play()

    async def step(self, count):
        accumulators = numbers(self.rng, ENGINE.matrix_bits, (count, LANES))
        threshold = np.where(
            self.rng.random((count, LANES)) < 0.5,
            accumulators + self.rng.integers(-1, 2, (count, LANES)),
            numbers(self.rng, 32, (count, LANES)),
        )
        first = await self.load([[int(t) & 0xFFFFFFFF for t in row] for row in threshold])
        f = ops.step(accumulators - threshold)
        cycles = self.issue(Route.STEP, count, accumulators, parameter=lambda i: first + i)
        for i, cycle in enumerate(cycles):
            self.result(cycle + DRAIN + StepThreshold.LATENCY, f[i], i, done=i == count - 1)
        await self.time.play()

    async def gelu(self, count):
        accumulators = numbers(self.rng, 20, (count, LANES))
        (multiplier, shift, _), words = self.scales(count)
        first = await self.load(words)
        g = ops.gelu(ops.gelu_index(accumulators, multiplier, shift), self.table)
        cycles = self.issue(Route.GELU, count, accumulators, parameter=lambda i: first + i)
        for i, cycle in enumerate(cycles):
            self.result(cycle + Y + Gelu.LATENCY, g[i], i, done=i == count - 1)
        await self.time.play()

    async def probe(self, count):
        bus = numbers(self.rng, 32, (count, LANES))
        cycles = self.issue(Route.PROBE, count, bus)
        for i, cycle in enumerate(cycles):
            tag = {
                "route": Route.PROBE.value,
                "kind": 0,
                "index": i,
                "sub": 0,
                "fresh": 0,
                "first": int(i == 0),
                "last": int(i == count - 1),
                "parameter": 0,
                "state": 0,
            }
            self.time.expect(cycle + DRAIN, "probe_valid", probe=integers(bus[i]), probe_tag=tag)
        self.time.expect(cycles[-1] + DRAIN + 1, "done")
        await self.time.play()

    def event_entry(self, task):
        scalars = (
            int(self.rng.integers(0, 4096)),
            int(self.rng.integers(1 << 12, 1 << 15)),
            int(self.rng.integers(12, 20)),
        )
        return scalars, {"task": task} | dict(
            zip(("threshold", "multiplier_a", "shift_a"), scalars, strict=True)
        )

    async def embed(self):
        """Beats that a channel reads; those outside the embedding are not looked at."""
        scalars, entry = self.event_entry(Task.EMBED)
        self.ports.set(entry=entry | {"words": WORDS})
        self.time.put(self.bench.cycle, side_valid=1, side=self.bench.rng.getrandbits(8 * LANES))
        await self.time.play()
        self.time.put(self.bench.cycle, embed_start=1)
        await self.time.play(margin=1)
        self.ports.set(embed_active=1)
        self.c = numbers(self.rng, 16, (WORDS, LANES))
        e = ops.event(self.c, *scalars)
        cycles = times(self.bench, self.idle, 2 * WORDS)
        for i in range(WORDS):
            packed = sum((int(x) & 0xFFFF) << 16 * lane for lane, x in enumerate(self.c[i]))
            for part, cycle in enumerate(cycles[2 * i : 2 * i + 2]):
                self.time.put(cycle, side_valid=1, side=packed >> 8 * LANES * part & ((1 << 8 * LANES) - 1))
            self.result(cycles[2 * i + 1] + 1 + RESIDUAL.EMBED_LATENCY, e[i], i, done=i == WORDS - 1)
        self.membrane, self.s = ops.lif_step(self.membrane, self.c, NUMERICS)
        await self.time.play()
        self.ports.set(embed_active=0)

    async def spikes(self):
        for i, cycle in enumerate(self.issue(Route.SPIKES, WORDS)):
            self.result(cycle + 1, self.s[i], i, done=i == WORDS - 1)
        await self.time.play()

    async def norm(self, task):
        accumulators = numbers(self.rng, ENGINE.matrix_bits, (WORDS, LANES))
        (multiplier, shift, _), words = self.scales(WORDS)
        first = await self.load(words)
        scalars, entry = self.event_entry(task)
        self.ports.set(entry=entry | {"gamma_shift": 12, "epsilon": 999})
        residual = self.c if task is Task.NORM_U else self.u
        pre = ops.residual_sum(residual, ops.requantise(accumulators, multiplier, shift))
        cycles = self.issue(Route.RESIDUAL, WORDS, accumulators, parameter=lambda i: first + i)
        self.time.expect(cycles[-1] + Y + RESIDUAL.SUM_LATENCY + STATISTICS - SOON, "statistics_done")
        await self.time.play(margin=0)
        gamma, beta, tau = (numbers(self.rng, 16, (WORDS, LANES)) for _ in range(3))
        fields = [
            [
                int(g) & 0xFFFF | (int(b) & 0xFFFF) << 16 | (int(t) & 0xFFFF) << 32
                for g, b, t in zip(*row, strict=True)
            ]
            for row in zip(gamma, beta, tau, strict=True)
        ]
        first = await self.load(fields)
        new = ops.layer_norm(pre.reshape(-1), gamma.reshape(-1), beta.reshape(-1), 12, 999).reshape(
            WORDS, LANES
        )
        e = ops.event(new, *scalars)
        for i, cycle in enumerate(self.issue(Route.NORMALISE, WORDS, parameter=lambda i: first + i)):
            self.result(cycle + RESIDUAL.NORMALISE_LATENCY, e[i], i, done=i == WORDS - 1)
        await self.time.play()
        if task is Task.NORM_U:
            self.u = new
        else:
            self.c, self.s = new, ops.step(new - tau)

    async def dump(self):
        """Every word of both memories."""
        for route, memory in ((Route.MEMBRANE, self.membrane), (Route.STATE, self.state)):
            cycles = times(self.bench, self.idle, len(memory))
            for i, cycle in enumerate(cycles):
                self.time.put(cycle, op_valid=1, op={"route": route, "index": i, "state": i})
                self.time.expect(cycle + 3, "dump_valid", dump_word=integers(memory[i]))
            await self.time.play()
