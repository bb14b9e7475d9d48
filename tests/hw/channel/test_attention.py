"""hw.channel.attention (with intake, walk, score, staging) against the integer model."""

from dataclasses import replace

import pytest

from symlight.base.errors import UserError
from symlight.hw.channel import attention
from symlight.hw.channel.attention import AttentionEngine
from symlight.hw.channel.ring.broadcast_receiver import KvCommandDecoder
from symlight.hw.channel.ring.read_scheduler import ReadScheduler
from symlight.hw.config import card
from tests.benches.bench import BenchError, run_bench

SMALL = {"lanes": 16, "kv_beats": 256, "query_words": 8, "heads": 4}


def run(config=SMALL, test_filter="^(?!.*resident)", seed=1, kind=AttentionEngine, **parameters):
    component = kind(engine=replace(card("sim2"), **config))
    return run_bench(
        component,
        "channel.cocotb_attention",
        test_filter,
        parameters={"engine": config, **parameters},
        seed=seed,
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_attention(seed):
    assert run(seed=seed) > 20


def test_resident_ring():
    """Two layers' whole rings on chip: slots come from earlier passes, loaded after a restore only."""
    assert run({**SMALL, "kv_resident": True}, "resident") == 8


class _IgnoresLoading(KvCommandDecoder):
    """Says of slots that are still loaded that they are there."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.sync += self.none.eq(1)
        return m


def test_bench_sees_slots_used_before_they_are_loaded(monkeypatch):
    monkeypatch.setattr(attention, "KvCommandDecoder", _IgnoresLoading)
    with pytest.raises(BenchError, match="numerators of"):
        run({**SMALL, "kv_resident": True}, "resident_restored")


def test_bench_sees_a_wrong_q():
    with pytest.raises(BenchError, match="numerators of"):
        run(test_filter="from_the_first_token", corrupt=True)


class _OneRead(ReadScheduler):
    """Reads one beat a cycle: no k beat in the cycle of a v beat."""

    def _weights(self, m, keys, values):
        known, room, weight = super()._weights(m, keys, values)
        return known, room & ~values.step, weight


def test_bench_sees_one_read_a_cycle(monkeypatch):
    monkeypatch.setattr(attention, "ReadScheduler", _OneRead)
    with pytest.raises(BenchError, match="beats of k in"):
        run(test_filter="one_k_and_one_v")


class _InPlace(ReadScheduler):
    """Takes the current token's slot where it is in the ring, and waits for it there."""

    def _weights(self, m, keys, values):
        m.d.comb += [keys.here.eq(0), values.here.eq(0)]
        return super()._weights(m, keys, values)


def test_bench_sees_a_wait_in_the_middle(monkeypatch):
    monkeypatch.setattr(attention, "ReadScheduler", _InPlace)
    with pytest.raises(BenchError, match="beats of k in"):
        run(test_filter="one_k_and_one_v.*where=first")


@pytest.mark.parametrize("name", ["kv_beats", "resident_beats"])
def test_keys_and_values_take_half_of_the_staging_memory_each(name):
    engine = replace(card("sim2"), kv_beats=1440)
    assert 2 * engine.stage_beats == engine.kv_beats
    with pytest.raises(UserError, match=f"{name} = 721 is not even"):
        replace(engine, **{name: 721})


class _Eager(AttentionEngine):
    """Reads the current token's slot before its k and v are there."""

    def _sequence(self, m, queue, intake, plan, walk):
        super()._sequence(m, queue, intake, plan, walk)
        m.d.comb += walk.taken.eq(1)


def test_bench_sees_a_slot_read_too_early():
    with pytest.raises(BenchError, match="numerators of|denominators of"):
        run(test_filter="from_the_first_token", kind=_Eager)
