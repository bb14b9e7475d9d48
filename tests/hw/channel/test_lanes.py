"""hw.channel.lanes (with accumulator and head) against the integer model."""

from dataclasses import replace

import pytest
from amaranth.hdl import Signal

from symlight.hw.channel.lanes import LaneGroup
from symlight.hw.config import Engine, card
from tests.benches.bench import BenchError, run_bench

SMALL = {"lanes": 16, "accumulators": 16}


def run(config=SMALL, test_filter=None, seed=1, make=Engine, kind=LaneGroup, **parameters):
    component = kind(engine=make(**replace(card("sim2"), **config).to_json()))
    return run_bench(
        component,
        "channel.cocotb_lanes",
        test_filter,
        parameters={"engine": config, **parameters},
        seed=seed,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_lane_group(seed):
    assert run(seed=seed, test_filter=None if seed == 1 else "^(?!.*extreme)") == (29 if seed == 1 else 28)


def test_bench_sees_a_wrong_bit():
    with pytest.raises(BenchError, match="[34] of 4 tests failed"):
        run(test_filter="random_commands", corrupt=True)


@pytest.mark.parametrize("name", ["matrix_bits", "head_bits"])
def test_bench_sees_a_bit_too_few(name):
    fewer = property(lambda self: getattr(Engine, name).fget(self) - 1)
    narrow = type("Narrow", (Engine,), {name: fewer})
    with pytest.raises(BenchError, match="1 of 1 tests failed"):
        run(test_filter="extreme_sums", make=narrow)


class _Talks(LaneGroup):
    """Answers requests that are for others, too."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.drain.word_valid.eq(1)
        return m


def test_bench_sees_an_answer_without_a_request():
    with pytest.raises(BenchError, match="an answer without a request"):
        run(test_filter="random_commands", kind=_Talks)


class _Overwrites(LaneGroup):
    """Does not wait while a beat of logits waits."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self._head.hold.eq(0)
        return m


def test_bench_sees_a_lost_logit():
    with pytest.raises(BenchError, match="1 of 4 tests failed|[234] of 4 tests failed|no end after"):
        run(test_filter="logits_of_every_row", kind=_Overwrites)


class _LosesCarries(LaneGroup):
    """Forgets what the lower product of a multiplier takes from the upper one."""

    def _multiply(self, m, token, operands, products, bank):
        carries = bank.add.carries
        bank.add.carries = Signal.like(carries)
        super()._multiply(m, token, operands, products, bank)
        bank.add.carries = carries


class _TakesTurns(LaneGroup):
    """Reads a tile though a drain request passes."""

    def _answer(self, m, bank, *others):
        asked, self.drain.asked = self.drain.asked, 0
        super()._answer(m, bank, *others)
        self.drain.asked = asked


@pytest.mark.parametrize(
    "kind, name", [(_LosesCarries, "extreme_sums"), (_TakesTurns, "tiles_beside_drains")]
)
def test_bench_sees_a_broken_pair_or_turn(kind, name):
    with pytest.raises(BenchError, match="1 of 1 tests failed"):
        run(test_filter=name, kind=kind)
