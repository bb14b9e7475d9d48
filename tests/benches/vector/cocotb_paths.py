"""Bench of the paths of hw.vector.session_state and hw.vector.attention: decay state, input encoder, gate
fusion."""

import cocotb
import numpy as np

from symlight.hw.vector.attention import FusionPath
from symlight.hw.vector.session_state import DecayPath, EncoderPath
from symlight.hw.vector.words import Route
from symlight.model import ops
from symlight.model.config import Numerics
from tests.benches.bench import Bench, stalls
from tests.benches.sequencer.sequencer_bench import IDLE, LIMIT, Ports
from tests.benches.vector.paths_bench import ENGINE, LANES, Timeline, integers, times
from tests.benches.vector.vector_bench import numbers

DECAY, ENCODER, FUSION = DecayPath(ENGINE), EncoderPath(ENGINE), FusionPath(ENGINE)


class Setup:
    """One path `name` on a timeline, and the model of its memory."""

    def __init__(self, dut, name, component, idle, strobes, outputs, words):
        self.bench = Bench(dut)
        self.rng = np.random.default_rng(self.bench.seed)
        self.ports = Ports(dut, component, name)
        self.idle = stalls(self.bench.rng, idle)
        self.time = Timeline(self.bench, self.ports, strobes, outputs)
        self.memory = np.zeros((words, LANES), np.int64)

    async def sweep(self):
        """Direct writes of every word, back to back, with numbers of all magnitudes."""
        self.memory = numbers(self.rng, 16, self.memory.shape)
        for i, word in enumerate(self.memory):
            self.time.put(self.bench.cycle + i, write_valid=1, write_address=i, write_word=integers(word))
        await self.time.play()

    async def check_memory(self, latency=1):
        """Reads of every word in random order, one after the other."""
        for i in self.rng.permutation(len(self.memory)):
            self.ports.set(read_valid=1, read_address=int(i))
            self.time.put(self.bench.cycle, read_valid=1, read_address=int(i))
            await self.bench.step(latency)
            got = self.ports.get("read_word")
            assert got == integers(self.memory[i]), f"memory word {i} is {got}, expected {self.memory[i]}"
        await self.bench.step()


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def decay(dut, idle):
    """Steps of one layer after the other, anywhere in the memory."""
    setup = Setup(
        dut,
        "decay",
        DECAY,
        idle,
        ("ahead_valid", "y_valid", "read_valid", "write_valid"),
        {"done": ()},
        ENGINE.state_words,
    )
    await setup.bench.reset()
    await setup.sweep()
    await setup.check_memory(DECAY.READ_LATENCY)
    for step in range(12):
        count = [1, 4, ENGINE.state_words][step % 3]
        base = int(setup.rng.integers(0, ENGINE.state_words - count + 1))
        y = numbers(setup.rng, 18, (count, LANES))
        beta = numbers(setup.rng, 16, y.shape, signed=False)
        cycles = [cycle + 1 for cycle in times(setup.bench, setup.idle, count)]
        for i, cycle in enumerate(cycles):
            tag = {"route": Route.DECAY, "index": i, "state": base + i, "last": int(i == count - 1)}
            # Multiplier and shift have been used before; the high bits of `extra` mean nothing.
            scale = [
                {
                    "extra": int(b) | int(setup.rng.integers(0, 1 << 11)) << 16,
                    "multiplier": int(setup.rng.integers(0, 1 << 15)),
                }
                for b in beta[i]
            ]
            setup.time.put(cycle - DECAY.READ_LATENCY, ahead_valid=1, ahead=tag)
            setup.time.put(cycle, y_valid=1, y=integers(y[i]), y_tag=tag, parameter=scale)
            # One head an element, so that each has its own coefficient.
            setup.memory[base + i] = ops.decay_step(setup.memory[base + i], ops.sat(y[i], 16), beta[i])
        setup.time.expect(cycles[-1] + DECAY.LATENCY, "done")
        await setup.time.play(margin=1)  # the state can be read when `done` has been seen
        await setup.check_memory(DECAY.READ_LATENCY)
    await setup.bench.reset()
    await setup.check_memory(DECAY.READ_LATENCY)  # outlives a reset
    await setup.bench.finish()


def beats(word) -> list[int]:
    """A word of int16 as two beats, low elements first."""
    packed = sum((int(x) & 0xFFFF) << 16 * i for i, x in enumerate(word))
    return [packed & ((1 << 8 * LANES) - 1), packed >> 8 * LANES]


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, words=[1, 5, 8])
async def encoder(dut, idle, words):
    """Rows of embedding beats at any pace; a row that a reset cuts short leaves no half word behind."""
    outputs = {
        "x_valid": ("x", "x_index", "x_last"),
        "spikes_valid": ("spikes", "spikes_index", "spikes_last"),
    }
    setup = Setup(
        dut,
        "encoder",
        ENCODER,
        idle,
        ("start", "beat_valid", "read_valid", "write_valid"),
        outputs,
        ENGINE.width_words,
    )
    numerics = Numerics()
    header = {
        "lif_leak": numerics.lif_leak,
        "lif_threshold": numerics.lif_threshold,
        "lif_clamp": numerics.lif_clamp,
    }
    setup.ports.set(header=header, words=words)
    await setup.bench.reset()
    await setup.sweep()
    setup.memory[:] = np.clip(setup.memory, -numerics.lif_clamp, numerics.lif_clamp)
    for i, word in enumerate(setup.memory):
        setup.time.put(setup.bench.cycle + i, write_valid=1, write_address=i, write_word=integers(word))
    await setup.time.play()
    for row in range(8):
        setup.time.put(setup.bench.cycle, start=1)
        x = numbers(setup.rng, 16, (words, LANES))
        if row % 2:
            x = np.clip(x, -3000, 3000)  # most membranes stay within their bounds
        cycles = times(setup.bench, setup.idle, 2 * words)
        for i in range(words):
            for cycle, beat in zip(cycles[2 * i : 2 * i + 2], beats(x[i]), strict=True):
                setup.time.put(cycle, beat_valid=1, beat=beat)
            setup.memory[i], spikes = ops.lif_step(setup.memory[i], x[i], numerics)
            second, last = cycles[2 * i + 1], int(i == words - 1)
            setup.time.expect(second + 1, "x_valid", x=integers(x[i]), x_index=i, x_last=last)
            packed = sum(int(s) << lane for lane, s in enumerate(spikes))
            setup.time.expect(
                second + ENCODER.LATENCY, "spikes_valid", spikes=packed, spikes_index=i, spikes_last=last
            )
        await setup.time.play()
        await setup.check_memory()
        if row == 4:
            # Half a word, then a new start.
            setup.time.put(setup.bench.cycle, beat_valid=1, beat=setup.bench.rng.getrandbits(8 * LANES))
            await setup.time.play()
    await setup.bench.finish()


HEADS = ENGINE.heads


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, head_words=[1, 3])
async def fusion(dut, idle, head_words):
    """Denominators in lanes of drained words, then numerators head by head; zero denominators give the gate's
    other half."""
    outputs = {"cast_valid": ("cast_word", "cast_index"), "done": ()}
    setup = Setup(dut, "fusion", FUSION, idle, ("weight_valid", "mix_valid"), outputs, 1)
    rng, time = setup.rng, setup.time
    await setup.bench.reset()
    zeros = 0
    for _ in range(12):
        gain_o, gain_h, shift = (
            int(rng.integers(0, 1 << 15)),
            int(rng.integers(0, 1 << 15)),
            int(rng.integers(10, 24)),
        )
        setup.ports.set(entry={"multiplier_a": gain_o, "multiplier_b": gain_h, "shift_a": shift})
        den = numbers(rng, 24, HEADS, signed=False)
        den[rng.integers(0, HEADS)] *= int(rng.integers(0, 2))
        zeros += int((den == 0).sum())
        column = int(rng.choice([1, 2, 4]))  # heads of a drained word
        weight_cycles = times(setup.bench, setup.idle, HEADS)
        for head, cycle in enumerate(weight_cycles):
            lane = head % column
            word = [int(d) for d in den[head - lane : head - lane + column]]
            word += [0] * (LANES - column)
            tag = {"route": Route.WEIGHT, "index": head, "sub": lane, "fresh": int(lane == 0)}
            time.put(cycle, weight_valid=1, weight_tag=tag)
            if lane == 0:
                time.put(cycle, weight_word=word)
        first = weight_cycles[0] + FUSION.RECIPROCAL_LATENCY
        words = HEADS * head_words
        cycles = times(setup.bench, setup.idle, words)
        # No sooner than each head's reciprocal; the runner's words follow each other.
        shift_by = max(
            0, *(weight_cycles[i // head_words] + FUSION.RECIPROCAL_LATENCY - c for i, c in enumerate(cycles))
        )
        cycles = [cycle + shift_by for cycle in cycles]
        assert cycles[0] >= first
        limit = 127 * np.repeat(den, head_words)[:, None]
        num = np.clip(numbers(rng, 32, (words, LANES)), -limit, limit)
        num = np.where(rng.random(num.shape) < 0.3, limit * rng.integers(-1, 2, num.shape), num)
        h = numbers(rng, 16, num.shape)
        m = ops.mix(ops.divide(num, np.repeat(den, head_words)[:, None]), h, gain_o, gain_h, shift)
        for i, cycle in enumerate(cycles):
            tag = {"route": Route.MIX, "index": i, "sub": i // head_words, "last": int(i == words - 1)}
            time.put(cycle, mix_valid=1, mix_tag=tag, numerator=integers(num[i]), state=integers(h[i]))
            time.expect(cycle + FUSION.LATENCY, "cast_valid", cast_word=integers(m[i]), cast_index=i)
        time.expect(cycles[-1] + FUSION.LATENCY, "done")
        await time.play()
    assert zeros > 0
    await setup.bench.finish()
