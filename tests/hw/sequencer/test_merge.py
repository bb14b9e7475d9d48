"""hw.sequencer.merge with the sampler behind it: tokens of model.sampling out of the channels' lists.

Simulated in Python: the channels are lists here, and nothing has to be compiled.
"""

import random
import warnings
from dataclasses import asdict, replace

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from symlight.hw.config import card
from symlight.hw.sequencer.merge import CandidateMerge
from symlight.hw.sequencer.sampler import Sampler
from symlight.model import sampling
from symlight.model.sampling import CANDIDATES, SamplerSettings, SamplingOptions

WAY = 14  # cycles from a request to its answer
LIMIT = 2000  # cycles of a draw
ROWS = 8  # rows of a tile


class Channels:
    """The candidate lists of all channels, and the drain bus."""

    def __init__(self, logits, count, rng):
        self.lists = [[] for _ in range(count)]
        for token, logit in enumerate(logits):
            self.lists[token // ROWS % count].append((-logit, token))
        self.lists = [[(-key, token) for key, token in sorted(rows)[:CANDIDATES]] for rows in self.lists]
        self.rng, self.given = rng, [1] * count

    def best(self, channel):
        return self._word(self.lists[channel][0] if self.lists[channel] else None)

    def next(self, channel):
        """The answer to a NEXT request; sometimes the list is busy."""
        if self.rng.random() < 0.1:
            return [*self.junk()[:3], 2]
        rows, place = self.lists[channel], self.given[channel]
        self.given[channel] += 1
        return self._word(rows[place] if place < len(rows) else None)

    def junk(self):
        return [self.rng.getrandbits(31) for _ in range(4)]

    def _word(self, row):
        if row is None:
            return [*self.junk()[:3], 0]
        logit, token = row
        return [logit & 0xFFFFFFFF, logit >> 32 & 0xFFFF, token, 1]


class Draw:
    """The two units, and one draw after another."""

    def __init__(self, channels, kind=CandidateMerge):
        self.count, self.module = channels, Module()
        self.module.submodules.merge = self.merge = kind(replace(card("sim4"), channels=channels))
        self.module.submodules.sampler = self.sampler = Sampler(candidates=CANDIDATES)
        connect(self.module, self.merge.offer, self.sampler.offer)
        self.module.d.comb += self.merge.stop.eq(self.sampler.done)
        self.cycles = []

    def run(self, cases):
        """Draw for each (logits, settings, position); fails at the first wrong token."""

        async def bench(ctx):
            for logits, settings, position in cases:
                token = await self._draw(ctx, logits, settings, position)
                expected = sampling.choose(np.array(logits), settings, position)
                assert token == expected, f"token {token}, expected {expected}: {settings}"

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            simulator = Simulator(self.module)
            simulator.add_clock(1e-8)
            simulator.add_testbench(bench)
            simulator.run()

    async def _draw(self, ctx, logits, settings, position):
        merge, sampler = self.merge, self.sampler
        channels = Channels(logits, self.count, random.Random(position))
        for name in asdict(settings):
            ctx.set(getattr(sampler.settings, name), getattr(settings, name))
        ctx.set(sampler.position, position)
        for channel in range(self.count):
            self._put(ctx, channels.best(channel))
            ctx.set(merge.best_valid, 1)
            ctx.set(merge.first, channel == 0)
            await ctx.tick()
        ctx.set(merge.best_valid, 0)
        await ctx.tick().repeat(3)
        for start in (1, 0):
            ctx.set(merge.start, start)
            ctx.set(sampler.start, start)
            await ctx.tick()
        on_the_way, token, cycles = [None] * WAY, None, 0
        while token is None or ctx.get(merge.busy):
            on_the_way.append(ctx.get(merge.channel) if ctx.get(merge.request_valid) else None)
            asked = on_the_way.pop(0)
            ctx.set(merge.answer_valid, asked is not None)
            self._put(ctx, channels.junk() if asked is None else channels.next(asked))
            if ctx.get(sampler.done):
                token = ctx.get(sampler.token)
                self.cycles.append(cycles)
            await ctx.tick()
            cycles += 1
            assert cycles < LIMIT, "no token"
        return token

    def _put(self, ctx, word):
        for lane, value in enumerate(word):
            ctx.set(self.merge.word[lane], value - (value >> 31 << 32))


def cases(seed, count):
    rng = random.Random(seed)
    print(f"seed {seed}")
    for number in range(count):
        size = rng.choice([3, CANDIDATES, 300])
        logits = [rng.randrange(3) if number % 3 == 0 else int(rng.gauss(0, 2**40)) for _ in range(size)]
        options = SamplingOptions(
            temperature=rng.choice([0.5, 1.0, 1000.0]),
            top_k=rng.choice([1, 5, 0]),
            top_p=rng.choice([1.0, 0.9]),
            min_p=rng.choice([0.0, 0.05]),
            seed=rng.getrandbits(64),
        )
        yield logits, SamplerSettings.of(options, 2.0**-40), rng.randrange(1 << 20)


@pytest.mark.parametrize("channels", [2, 4, 28])
def test_tokens_of_the_merged_lists(channels):
    draw = Draw(channels)
    draw.run(list(cases(channels, 7)))
    assert len(draw.cycles) == 7


class _NeverRefills(CandidateMerge):
    """Takes the best row of every channel only."""

    def _store(self, m, place, key):
        super()._store(m, place, 0 if place is self.channel else key)


def test_a_broken_merge_is_seen():
    with pytest.raises(AssertionError, match="expected|no token"):
        Draw(4, _NeverRefills).run(list(cases(1, 7)))


def test_cycles_of_a_draw_at_full_size():
    """All 64 candidates over 32 channels: within the 1,500 cycles that a draw may take."""
    rng = random.Random(5)
    logits = [int(rng.gauss(0, 2**40)) for _ in range(2000)]
    settings = SamplerSettings.of(SamplingOptions(temperature=1000, seed=1), 2.0**-40)
    draw = Draw(32)
    draw.run([(logits, settings, position) for position in (3, 4)])
    print(draw.cycles)
    assert all(900 < cycles < 1500 for cycles in draw.cycles)
