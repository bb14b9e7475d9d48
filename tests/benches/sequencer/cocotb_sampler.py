"""Bench of hw.sequencer.sampler.Sampler: every draw against model.sampling."""

from dataclasses import replace

import cocotb
import numpy as np

from symlight.hw.sequencer.random_word import RandomWord
from symlight.hw.sequencer.sampler import Offer, Sampler, Settings
from symlight.model import sampling
from symlight.model.sampling import SamplerSettings, SamplingOptions
from tests.benches.bench import Bench, Source, parameters
from tests.benches.layout_values import bits

LIMIT = {"timeout_time": 20_000_000, "timeout_unit": "ns"}
TOP = 2**47 - 1
NAMES = ("multiplier", "shift", "top_k", "min_weight", "top_p", "seed")


class Draws:
    def __init__(self, dut, idle="never"):
        self.bench = Bench(dut)
        self.dut = dut
        self.offers = Source(self.bench, "offer", Offer, idle=idle)
        self.count = parameters()["count"]
        self.drawn = 0

    async def draw(self, logits, settings, position):
        """One draw from all logits; returns (token, cycles, candidates taken)."""
        ids, values = sampling.candidates(np.array(logits, np.int64), self.count)
        self.dut.settings.value = bits(Settings, {name: getattr(settings, name) for name in NAMES})
        self.dut.position.value = position
        before = self.offers.count
        offers = [{"logit": int(v), "id": int(i), "valid": 1} for i, v in zip(ids, values, strict=True)]
        self.offers.send([*offers, {"logit": 5, "id": 5, "valid": 0}])
        self.dut.start.value = 1
        await self.bench.step()
        self.dut.start.value = 0
        begin = self.bench.cycle
        await self.bench.until(lambda: int(self.dut.done.value), limit=6000)
        cycles, token = self.bench.cycle - begin, int(self.dut.token.value)
        self.offers.queue.clear()  # what was not needed
        self.offers.offered = False
        await self.bench.step(2)
        assert int(self.dut.token.value) == token
        expected = sampling.choose_candidate(ids, values, settings, position)
        assert token == expected, f"token {token}, expected {expected}: {settings}, position {position}"
        self.drawn += 1
        return token, cycles, self.offers.count - before


def random_settings(rng, scale, most):
    """Settings of a sampler of `most` candidates."""
    options = SamplingOptions(
        temperature=rng.choice([1e-6, 0.1, 0.5, 0.8, 1.0, 2.0, 1000.0]),
        top_k=min(most, rng.choice([1, 2, 40, 63, 64])),
        top_p=rng.choice([1.0, 1.0, 0.95, 0.5, 1e-6]),
        min_p=rng.choice([0.0, 0.0, 0.05, 0.5, 1.0]),
        seed=rng.getrandbits(64),
    )
    settings = SamplerSettings.of(options, scale)
    return replace(settings, top_k=most) if rng.random() < 0.2 else settings


def random_logits(rng):
    kind, size = rng.choice(["normal", "equal", "wide", "steps"]), rng.choice([1, 2, 63, 64, 65, 300])
    if kind == "equal":
        return [rng.randrange(-TOP, TOP)] * size
    if kind == "wide":
        return [rng.choice([-TOP, TOP, rng.randrange(-TOP, TOP)]) for _ in range(size)]
    if kind == "steps":
        return [int(-i * 2**18) for i in range(size)]
    return [int(rng.gauss(0, 2**21)) for _ in range(size)]


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "slow"])
async def random_draws(dut, idle):
    """All kinds of settings and logits: ties, fewer rows than places, extremes of temperature and range."""
    draws = Draws(dut, idle)
    await draws.bench.reset()
    rng = draws.bench.rng
    for _ in range(parameters()["draws"]):
        scale = rng.choice([2.0**-20, 2.0**-20, 2.0**-40, 0.9])
        await draws.draw(random_logits(rng), random_settings(rng, scale, draws.count), rng.randrange(1 << 20))
    assert draws.drawn == parameters()["draws"]


@cocotb.test(**LIMIT)
async def time_of_a_draw(dut):
    """As long as documented; settings that keep few candidates take few."""
    draws = Draws(dut)
    await draws.bench.reset()
    logits = [-i * 2**12 for i in range(100)]
    for count in (1, 8, min(64, draws.count)):
        options = SamplingOptions(temperature=1, top_k=count, seed=count)
        _, cycles, taken = await draws.draw(logits, SamplerSettings.of(options, 2.0**-20), count)
        assert count <= taken <= count + Sampler.WEIGH
        after = Sampler(candidates=draws.count).AFTER
        assert after - 45 < cycles - max(count, RandomWord.LATENCY) <= after


@cocotb.test(**LIMIT)
async def words_of_the_generator(dut):
    """With 64 equal weights the token is the top 6 bits of the word: uniform, and the model's own."""
    draws = Draws(dut)
    await draws.bench.reset()
    settings = [
        SamplerSettings.of(SamplingOptions(temperature=1, seed=seed), 2.0**-20) for seed in (0, 2**64 - 1, 77)
    ]
    for position in (0, 1, (1 << 20) - 1, 12345):
        for one in settings:
            token, *_ = await draws.draw([9] * 64, one, position)
            assert token == sampling.random_word(one.seed, position) >> 26
