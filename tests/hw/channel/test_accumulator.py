"""hw.channel.accumulator, and hw.channel.ring.staging's latency."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import connect, flipped
from amaranth.sim import Simulator

from symlight.hw.channel.accumulator import AccumulatorBank
from symlight.hw.channel.ring.staging import Staging
from symlight.hw.config import card
from tests.benches.bench import BenchError, run_bench

SIZE = {"lanes": 2, "depth": 8}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_accumulator_bank(seed, shared):
    assert (
        run_bench(
            AccumulatorBank(**SIZE, shared=shared),
            "channel.cocotb_accumulator",
            "random|forgets",
            parameters={**SIZE, "shared": shared},
            seed=seed,
        )
        == 8
    )


def test_asserts_collisions_at_a_shared_port():
    with pytest.raises(BenchError, match="meet at the shared port"):
        run_bench(
            AccumulatorBank(**SIZE, shared=True), "channel.cocotb_accumulator", "random", parameters=SIZE
        )


def test_asserts_collisions():
    with pytest.raises(BenchError, match="drain meets an addition"):
        run_bench(AccumulatorBank(**SIZE), "channel.cocotb_accumulator", "collision", parameters=SIZE)


class _Hazard(AccumulatorBank):
    """A bank that loses an addition right after one to the same word."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = AccumulatorBank(**SIZE)
        connect(m, flipped(self.drain), inner.drain)
        last, was = Signal.like(self.add.address), Signal()
        m.d.sync += [last.eq(self.add.address), was.eq(self.add.valid)]
        m.d.comb += [
            inner.clear.eq(self.clear),
            inner.add.address.eq(self.add.address),
            inner.add.addends.eq(self.add.addends),
            inner.add.valid.eq(self.add.valid & ~(was & (self.add.address == last))),
        ]
        return m


def test_bench_sees_a_hazard():
    with pytest.raises(BenchError, match="6 of 6 tests failed"):
        run_bench(_Hazard(**SIZE), "channel.cocotb_accumulator", "random", parameters=SIZE)


def test_staging_latency():
    """Every read of a random program returns what was written in earlier cycles, LATENCY cycles later, and
    holds."""
    import random

    rng = random.Random(5)
    depth = 24  # not a power of two
    staging = Staging(engine=replace(card("sim2"), lanes=16, kv_beats=2 * depth))
    program = [
        (
            rng.random() < 0.6,
            rng.randrange(depth),
            rng.getrandbits(128),
            rng.random() < 0.6,
            rng.randrange(depth),
        )
        for _ in range(400)
    ]
    seen, expected, memory, answer = [], [], [0] * depth, 0

    async def bench(ctx):
        for write, target, word, read, address in program:
            ctx.set(staging.write.en, write)
            ctx.set(staging.write.address, target)
            ctx.set(staging.write.data.as_value(), word)
            ctx.set(staging.read.en, read)
            ctx.set(staging.read.address, address)
            seen.append(ctx.get(staging.read.data.as_value()))
            await ctx.tick()

    for write, target, word, read, address in program:
        expected.append(answer)
        if read:
            answer = memory[address]
        if write:
            memory[target] = word
    sim = Simulator(staging)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    shift = Staging.LATENCY - 1  # `expected` is one cycle late already
    assert seen[shift:] == expected[: len(expected) - shift] and len(set(seen)) > 100
