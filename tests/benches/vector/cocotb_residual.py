"""Bench of hw.vector.residual: embedding, both LayerNorms, spikes, events and head input of whole vectors."""

import cocotb
import numpy as np

from symlight.hw.types import Task
from symlight.hw.vector.layernorm import LayerNormStatistics
from symlight.hw.vector.lif import Lif
from symlight.hw.vector.residual import ResidualPath
from symlight.hw.vector.words import Route
from symlight.model import ops
from tests.benches.bench import Bench, stalls
from tests.benches.sequencer.sequencer_bench import IDLE, LIMIT, Ports
from tests.benches.vector.paths_bench import ENGINE, LANES, Timeline, integers, times
from tests.benches.vector.vector_bench import numbers

PATH = ResidualPath(ENGINE)
STATISTICS, SOON = LayerNormStatistics(LANES, ENGINE.width_words).LATENCY, LayerNormStatistics.SOON
SPIKES_LATENCY = Lif.LATENCY  # of the encoder, after its embedding word


class Stream:
    """The path, and the residual stream as the model has it."""

    def __init__(self, dut, width, idle):
        self.bench = Bench(dut)
        self.rng = np.random.default_rng(self.bench.seed)
        self.ports = Ports(dut, PATH, "residual")
        self.width, self.words = width, -(-width // LANES)
        self.idle = stalls(self.bench.rng, idle)
        self.time = Timeline(
            self.bench,
            self.ports,
            ("ahead_valid", "y_valid", "op_valid", "x_valid", "x_spikes_valid"),
            {"cast_valid": ("cast_word", "cast_index"), "done": (), "statistics_done": (), "written": ()},
        )
        self.c = self.u = self.s = self.e = None

    async def reset(self):
        header = {"width": self.width, "inv_width": ops.inv_width(self.width)}
        self.ports.set(header=header, entry={"task": Task.EMBED}, head_pass=0)
        await self.bench.reset()

    def padded(self, vector):
        return np.pad(vector, (0, self.words * LANES - self.width)).reshape(self.words, LANES)

    def event(self, task, to_head=False):
        """New event scalars in the entry; returns them with the entry."""
        threshold = 0 if to_head else int(self.rng.integers(0, 1 << self.rng.integers(1, 16)))
        scalars = (
            min(threshold, 32767),
            int(numbers(self.rng, 15, (), signed=False)),
            int(self.rng.integers(1, 25)),
        )
        entry = dict(zip(("threshold", "multiplier_a", "shift_a"), scalars, strict=True))
        return scalars, entry | {"task": task, "to_head": to_head}

    def casts(self, cycles, latency, words, silent=False):
        for i, cycle in enumerate(cycles):
            if not silent:
                self.time.expect(cycle + latency, "cast_valid", cast_word=integers(words[i]), cast_index=i)
        self.time.expect(cycles[-1] + latency, "done")

    async def embed(self):
        scalars, entry = self.event(Task.EMBED)
        self.ports.set(entry=entry)
        self.c = numbers(self.rng, 16, self.width)
        self.s = self.rng.integers(0, 2, self.width)
        self.e = ops.event(self.c, *scalars)
        cycles = times(self.bench, self.idle, self.words, least=2)  # two beats a word
        x, s = self.padded(self.c), self.padded(self.s)
        for i, cycle in enumerate(cycles):
            self.time.put(cycle, x_valid=1, x=integers(x[i]), x_index=i, x_last=int(i == self.words - 1))
            spikes = sum(int(bit) << lane for lane, bit in enumerate(s[i]))
            self.time.put(cycle + SPIKES_LATENCY, x_spikes_valid=1, x_spikes=spikes, x_spikes_index=i)
        self.casts(cycles, PATH.EMBED_LATENCY, self.padded(self.e))
        await self.time.play()

    async def broadcast(self, route, vector):
        """SPIKES or REPLAY: the words as the memory stores them."""
        cycles = times(self.bench, self.idle, self.words)
        for i, cycle in enumerate(cycles):
            op = {"route": route, "index": i, "last": int(i == self.words - 1)}
            self.time.put(cycle, op_valid=1, op=op)
        self.casts(cycles, 1, self.padded(vector))
        await self.time.play()

    async def norm(self, task, y, *, to_head=False, head=1):
        """A RESIDUAL step and the NORMALISE step after it."""
        scalars, entry = self.event(task, to_head)
        gamma_shift, epsilon = (
            int(self.rng.integers(8, 22)),
            int(numbers(self.rng, 27, (), signed=False)) + 16,
        )
        self.ports.set(entry=entry | {"gamma_shift": gamma_shift, "epsilon": epsilon}, head_pass=head)
        residual = self.c if task is Task.NORM_U else self.u
        pre = ops.residual_sum(residual, y)
        cycles = times(self.bench, self.idle, self.words)
        for i, (cycle, word) in enumerate(zip(cycles, self.padded(y), strict=True)):
            tag = {
                "route": Route.RESIDUAL,
                "index": i,
                "first": int(i == 0),
                "last": int(i == self.words - 1),
            }
            self.time.put(cycle - 1, ahead_valid=1, ahead=tag)
            self.time.put(cycle, y_valid=1, y=integers(word), y_tag=tag)
        self.time.expect(cycles[-1] + PATH.SUM_LATENCY, "written")
        self.time.expect(cycles[-1] + PATH.SUM_LATENCY + STATISTICS - SOON, "statistics_done")
        await self.time.play(margin=0)
        gamma, beta, tau = (numbers(self.rng, 16, self.width) for _ in range(3))
        new = ops.layer_norm(pre, gamma, beta, gamma_shift, epsilon)
        e = ops.event(new, *scalars)
        cycles = times(self.bench, self.idle, self.words)
        parts = [self.padded(v) for v in (gamma, beta, tau)]
        for i, cycle in enumerate(cycles):
            op = {"route": Route.NORMALISE, "index": i, "last": int(i == self.words - 1)}
            self.time.put(cycle, op_valid=1, op=op)
            words = [
                dict(zip(("gamma", "beta", "tau"), map(int, values), strict=True))
                for values in zip(*(part[i] for part in parts), strict=True)
            ]
            self.time.put(cycle + 2, parameter=words)
        self.casts(cycles, PATH.NORMALISE_LATENCY, self.padded(e), silent=to_head and not head)
        await self.time.play()
        self.e = e
        if task is Task.NORM_U:
            self.u = new
        else:
            self.c, self.s = new, ops.step(new - tau)


async def whole_pass(stream, layers, head):
    """A pass of `layers` blocks over the path, every broadcast checked."""
    rng = stream.rng
    await stream.embed()
    await stream.broadcast(Route.SPIKES, stream.s)
    for layer in range(layers):
        last = layer == layers - 1
        await stream.norm(Task.NORM_U, numbers(rng, 18, stream.width))
        await stream.norm(Task.NORM_C, numbers(rng, 18, stream.width), to_head=last, head=head)
        if not last:
            await stream.broadcast(Route.SPIKES, stream.s)
    await stream.broadcast(Route.REPLAY, stream.e)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, width=[32, 28, 4])
async def passes(dut, idle, width):
    stream = Stream(dut, width, idle)
    await stream.reset()
    for head in (1, 0):
        await whole_pass(stream, 3, head)
    await stream.bench.finish()


@cocotb.test(**LIMIT)
async def width_within_a_word(dut):
    """The rest of the last word is zero in every broadcast of events."""
    stream = Stream(dut, 30, "random")
    await stream.reset()
    await stream.embed()
    await stream.broadcast(Route.SPIKES, stream.s)
    for task in (Task.NORM_U, Task.NORM_C, Task.NORM_U):
        await stream.norm(task, numbers(stream.rng, 18, 30))
    await stream.bench.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(kind=["largest", "constant", "one", "zero"])
async def extremes(dut, kind):
    stream = Stream(dut, 32, "never")
    await stream.reset()
    await stream.embed()
    y = {
        "largest": np.where(np.arange(32) % 2, 2**17 - 1, -(2**17)),
        "constant": np.full(32, -(2**17)),
        "one": np.where(np.arange(32) == 17, 2**17 - 1, 0),
        "zero": np.zeros(32, np.int64),
    }[kind]
    await stream.norm(Task.NORM_U, y)
    await stream.norm(Task.NORM_C, -y - 1)
    await stream.broadcast(Route.SPIKES, stream.s)
    await stream.bench.finish()


@cocotb.test(**LIMIT)
async def after_a_reset(dut):
    """A reset in the middle of a vector; the next pass is whole."""
    stream = Stream(dut, 32, "never")
    await stream.reset()
    await stream.embed()
    stream.ports.set(entry={"task": Task.NORM_U, "epsilon": 16, "gamma_shift": 1})
    for i in range(3):
        tag = {"route": Route.RESIDUAL, "index": i, "first": int(i == 0)}
        stream.time.put(stream.bench.cycle, ahead_valid=1, ahead=tag)
        stream.time.put(stream.bench.cycle + 1, y_valid=1, y=[1] * LANES, y_tag=tag)
        await stream.bench.step(2)
    await stream.reset()
    await whole_pass(stream, 2, 1)
    await stream.bench.finish()
