"""The probe against the memory model: what it measures is what the model was given."""

import pytest

from symlight.base.errors import DeviceFault, UserError
from symlight.host.measure.probe import Question, measure
from symlight.hw.axi import MAX_BURST
from tests.hw.probe.conftest import ENGINE

pytestmark = pytest.mark.timeout(300)
TICK_NS = 1000 / 900  # of the model's timings
TRFC_NS = 234 * TICK_NS  # as in hbm.h
IDEAL_CYCLES = 8


def test_an_ideal_memory_is_measured_exactly(probe):
    """A fixed latency, then a beat a cycle: every figure is known."""
    runner = probe(hbm="ideal", hbm_settings={"ideal_cycles": IDEAL_CYCLES, "ar_ps": 0})
    alone, other = runner.ask(Question(2, 50, beats=1, flying=1))
    assert alone == other
    assert alone.latency_least == alone.latency_most == IDEAL_CYCLES
    assert alone.beats == 50 and alone.latency_sum == 50 * IDEAL_CYCLES
    (stream,) = runner.ask(Question(1, 200, flying=8))
    assert stream.beats == 200 * MAX_BURST and stream.gaps == 0
    assert stream.beats <= stream.cycles <= stream.beats + 2 * IDEAL_CYCLES + 8


@pytest.mark.parametrize("latency", [100, 300])
def test_latency_follows_the_model(probe, latency):
    """The DRAM's part of an idle page hit is the same whatever lies before it."""
    base = probe(latency_ns=170, hbm_settings={"trefi": 0}).ask(Question(2, 100, beats=1, flying=1))
    moved = probe(latency_ns=latency, hbm_settings={"trefi": 0}).ask(Question(2, 100, beats=1, flying=1))
    for before, after in zip(base, moved, strict=True):
        difference = (after.latency_least - before.latency_least) * after.cycle_ns
        assert abs(difference - (latency - 170)) <= after.cycle_ns


@pytest.mark.parametrize("trefi", [3510, 1755])
def test_refreshes_are_seen(probe, trefi):
    """Their interval is the model's, and the longest delay is a refresh and the opening of a row."""
    found = measure(probe(hbm_settings={"trefi": trefi}), 2, bursts=4000, flying=(1,))
    assert found.refresh_interval_ns == pytest.approx((trefi * TICK_NS,) * 2, rel=0.1)
    assert all(0.8 * TRFC_NS < refresh < 1.4 * TRFC_NS for refresh in found.refresh_ns), found


def test_without_refreshes_none_is_seen(probe):
    found = measure(probe(hbm_settings={"trefi": 0}), 2, bursts=2000, flying=(64,))
    assert found.refresh_interval_ns is None and found.refresh_ns is None
    assert found.stream_gap_ns == (0, 0)


def test_a_return_buffer_shows_in_the_stream(probe):
    """With beats enough a refresh is hidden from the port, with 32 it is not."""
    hidden = measure(probe(bytes=8192), 2, bursts=3000, flying=(64,))
    shown = measure(probe(bytes=8192, hbm_settings={"buffer": 32}), 2, bursts=3000, flying=(64,))
    assert max(hidden.stream_gap_ns) == 0 < min(shown.stream_gap_ns)
    assert shown.bandwidth[64][1] < hidden.bandwidth[64][0]


def test_bytes_in_flight_bound_the_bandwidth(probe):
    """A port that takes 2 KB is seen to need no more bursts than that, and to be slower."""
    limits = (1, 2, 4, 8, 16)
    narrow = measure(probe(bytes=2048), 2, bursts=600, flying=limits)
    wide = measure(probe(bytes=8192), 2, bursts=600, flying=limits)
    assert narrow.saturated_at == 2048 // (MAX_BURST * ENGINE.beat_bytes) < wide.saturated_at
    assert narrow.bandwidth[16][0] < wide.bandwidth[16][0]
    # one burst at a time is bound by the latency alone
    assert narrow.bandwidth[1] == pytest.approx(wide.bandwidth[1], rel=0.02)


def test_a_failing_port_is_named(probe):
    runner = probe()
    memory = runner._card._buffers["hbm01"]._allocation
    runner.sim.model.inject(1, memory.address, 4096, 2, writes=False)
    with pytest.raises(DeviceFault, match="channel 1"):
        runner.ask(Question(2, 10))
    runner.sim.model.clear_faults()
    assert runner.ask(Question(2, 10))[1].beats == 10 * MAX_BURST


BROKEN = {
    "ports": Question(3, 1),
    "on their way": Question(1, 1, flying=65),
    "4 KB": Question(1, 1, beats=3),
    "every 24": Question(1, 1, beats=16, stride=24),
}


@pytest.mark.parametrize("words", BROKEN)
def test_what_the_probe_cannot_do_is_refused(words):
    with pytest.raises(UserError, match=words):
        BROKEN[words].scalars(ENGINE)
