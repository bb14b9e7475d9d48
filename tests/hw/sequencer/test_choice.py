"""hw.sequencer.choice: tokens and candidates of model.sampling out of the channels' lists.

Simulated in Python: the channels are lists here, and nothing has to be compiled.
"""

import random
import warnings
from dataclasses import asdict, replace
from unittest.mock import patch

import numpy as np
import pytest
from amaranth.lib.memory import Memory
from amaranth.sim import Simulator

from symlight.hw.config import card
from symlight.hw.interface import CANDIDATES_BYTES, Io
from symlight.hw.lib import extremes
from symlight.hw.sequencer import choice
from symlight.hw.sequencer.merge import CandidateMerge
from symlight.model import sampling
from symlight.model.sampling import CANDIDATES, SamplerSettings, SamplingOptions

WAY = 14  # cycles from a request to its answer
LIMIT = 2000  # cycles of a draw


@pytest.fixture(autouse=True)
def anything_in_memories(monkeypatch):
    """A memory holds anything until it is written: here large numbers, as a simulated kernel's does."""
    rng = random.Random(3)

    def filled(*, shape, depth, init):
        assert len(init) == 0
        return Memory(shape=shape, depth=depth, init=[rng.getrandbits(shape) | 1 << shape - 1] * depth)

    monkeypatch.setattr(extremes, "Memory", filled)


class Channels:
    """The candidate lists of all channels, with `rows` rows a tile, and the drain bus."""

    def __init__(self, logits, count, rows, rng):
        self.lists = [[] for _ in range(count)]
        for token, logit in enumerate(logits):
            self.lists[token // rows % count].append((-logit, token))
        self.lists = [[(-key, token) for key, token in sorted(rows)[:CANDIDATES]] for rows in self.lists]
        self.rng, self.given = rng, [1] * count

    def best(self, channel):
        return self._word(self.lists[channel][0] if self.lists[channel] else None)

    def next(self, channel):
        """The answer to a NEXT request."""
        assert channel < len(self.lists), f"channel {channel} is asked, {len(self.lists)} are expected"
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
    """The unit, and one choice after another."""

    def __init__(self, channels, kind=CandidateMerge, rows=8, lanes=32):
        self.count, self.rows = channels, rows
        engine = replace(card("sim4"), channels=channels, lanes=lanes)
        with patch.object(choice, "CandidateMerge", kind):
            self.module = self.choice = choice.TokenChoice(engine)
        self.beat_bytes, self.memory, self.cycles = engine.beat_bytes, {}, []

    def run(self, cases, *, stall=0.0):
        """Choose for each (logits, settings or None, position, listing); fails at the first difference."""

        async def bench(ctx):
            for number, (logits, settings, position, listing) in enumerate(cases):
                token = await self._choose(
                    ctx, logits, settings, position, number if listing else None, stall
                )
                expected = sampling.choose(np.array(logits), settings, position)
                if settings is not None:
                    assert token == expected, f"token {token}, expected {expected}: {settings}"
                self._check_listed(logits, number if listing else None)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            simulator = Simulator(self.module)
            simulator.add_clock(1e-8)
            simulator.add_testbench(bench)
            simulator.run()

    def _check_listed(self, logits, number):
        """Nothing but the candidates of this token has been written, each in its place."""
        ids, values = sampling.candidates(np.array(logits))
        data = b""
        if number is not None:
            first = (Io.CANDIDATES + number % Io.CANDIDATE_TOKENS * CANDIDATES_BYTES) // self.beat_bytes
            beats = -(-8 * len(ids) // self.beat_bytes)
            data = b"".join(self.memory.pop(first + beat) for beat in range(beats))
            self.memory.pop(first + beats, None) if len(ids) < CANDIDATES else None
        expected = [int(v) & (1 << 48) - 1 | int(i) << 48 for i, v in zip(ids, values, strict=True)]
        if number is not None:
            assert np.frombuffer(data, "<u8")[: len(ids)].tolist() == expected, "expected other candidates"
        assert not self.memory, f"{len(self.memory)} beats that nobody expected"

    async def _choose(self, ctx, logits, settings, position, number, stall):
        unit, rng = self.choice, random.Random(position)
        channels = Channels(logits, self.count, self.rows, rng)
        ctx.set(unit.sampling, settings is not None)
        ctx.set(unit.listing, number is not None)
        for name, value in ({} if settings is None else asdict(settings)).items():
            ctx.set(getattr(unit.settings, name), value)
        ctx.set(unit.position, position)
        ctx.set(unit.number, number or 0)
        for channel in range(self.count):
            self._put(ctx, channels.best(channel))
            ctx.set(unit.best_valid, 1)
            ctx.set(unit.first, channel == 0)
            await ctx.tick()
        ctx.set(unit.best_valid, 0)
        await ctx.tick().repeat(3)
        for start in (1, 0):
            ctx.set(unit.start, start)
            await ctx.tick()
        on_the_way, cycles = [None] * WAY, 1
        while not ctx.get(unit.done):
            on_the_way.append(ctx.get(unit.channel) if ctx.get(unit.request_valid) else None)
            asked = on_the_way.pop(0)
            ctx.set(unit.answer_valid, asked is not None)
            ctx.set(unit.answer_channel, rng.randrange(self.count) if asked is None else asked)
            self._put(ctx, channels.junk() if asked is None else channels.next(asked))
            ctx.set(unit.write.ready, rng.random() >= stall)
            if ctx.get(unit.write.valid) and ctx.get(unit.write.ready):
                word = ctx.get(unit.write.p.word).to_bytes(self.beat_bytes, "little")
                self.memory[ctx.get(unit.write.p.address)] = word
            await ctx.tick()
            cycles += 1
            assert cycles < LIMIT, "no token"
        assert not ctx.get(unit.busy) and not any(asked is not None for asked in on_the_way)
        self.cycles.append(cycles)
        return ctx.get(unit.token)

    def _put(self, ctx, word):
        for lane, value in enumerate(word):
            ctx.set(self.choice.word[lane], value - (value >> 31 << 32))


def cases(seed, count):
    """All ways to choose in turn: drawn, drawn and written down, written down beside the largest."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    for number in range(count):
        size = rng.choice([3, 63, CANDIDATES, 300, 1001])
        logits = [rng.randrange(3) if number % 4 == 0 else int(rng.gauss(0, 2**40)) for _ in range(size)]
        options = SamplingOptions(
            temperature=rng.choice([0.5, 1.0, 1000.0]),
            top_k=rng.choice([1, 5, 0]),
            top_p=rng.choice([1.0, 0.9]),
            min_p=rng.choice([0.0, 0.05]),
            seed=rng.getrandbits(64),
        )
        settings = None if number % 3 == 2 else SamplerSettings.of(options, 2.0**-40)
        yield logits, settings, rng.randrange(1 << 20), number % 3 > 0


@pytest.mark.parametrize("channels, rows", [(1, 16), (2, 64), (4, 32), (6, 16), (8, 16), (28, 32)])
def test_choices_of_the_merged_lists(channels, rows):
    """Tiles of every width; vocabularies that fill no tile, or leave channels without a row."""
    draw = Draw(channels, rows=rows, lanes=rows)
    draw.run(list(cases(channels, 9)), stall=0.3 * (channels % 4 == 0))
    assert len(draw.cycles) == 9


class _TakesFirstTwice(CandidateMerge):
    """Does not replace a row that was offered."""

    def _store(self, m, place, key):
        if place.name == "place":
            super()._store(m, place, key)


class _LooksBeyond(CandidateMerge):
    """Scans places of channels that do not exist."""

    def __init__(self, engine):
        super().__init__(engine)
        self._keys._used = self._count


@pytest.mark.parametrize("kind", [_TakesFirstTwice, _LooksBeyond])
def test_a_broken_merge_is_seen(kind):
    with pytest.raises(AssertionError, match="expected|no token"):
        Draw(4, kind).run(list(cases(1, 9)))


def test_cycles_of_a_choice_at_full_size():
    """All 64 candidates over 32 channels: within the 1,500 cycles that a choice may take, whatever is
    asked for."""
    rng = random.Random(5)
    logits = [int(rng.gauss(0, 2**40)) for _ in range(2000)]
    settings = SamplerSettings.of(SamplingOptions(temperature=1000, seed=1), 2.0**-40)
    draw = Draw(32)
    draw.run([(logits, settings, 3, False), (logits, settings, 4, True), (logits, None, 5, True)])
    print(draw.cycles)
    assert all(300 < cycles < 600 for cycles in draw.cycles)
