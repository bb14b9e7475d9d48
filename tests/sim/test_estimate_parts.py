"""The parts of the cycle estimate against plain definitions: walk, rows, limits in flight, memory times."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.hw import config
from symlight.sim.estimate.latencies import latencies
from symlight.sim.estimate.memory import Memory
from symlight.sim.estimate.ports import Ports, _History
from symlight.sim.estimate.walk import walk_cycles
from symlight.sim.estimate.workload import active_inputs, row_times
from symlight.sim.hbm import header_constants
from symlight.sim.options import SimOptions

CONSTANTS = header_constants()


def test_the_memory_is_that_of_the_header():
    assert CONSTANTS["TICK_MHZ"] == 900 and CONSTANTS["COLUMN_BYTES"] == 32
    assert {"cl", "trefi", "trfc", "ideal_cycles", "ar_ps"} <= set(CONSTANTS)
    options = SimOptions()
    assert (options.bursts, options.bytes, options.latency_ns) == (
        CONSTANTS["bursts"],
        CONSTANTS["bytes"],
        CONSTANTS["latency"],
    )
    memory = Memory(clock_mhz=175)
    assert (memory.bursts, memory.bytes, memory.latency_ns) == (
        options.bursts,
        options.bytes,
        options.latency_ns,
    )
    # nanoseconds of a page hit after its column
    assert memory.latency / 175e6 * 1e9 == pytest.approx(CONSTANTS["latency"] + 16 / 0.9)
    assert memory.refresh[0] / 175e6 * 1e6 == pytest.approx(3.9)  # microseconds
    assert Memory(clock_mhz=300, hbm="ideal").latency == CONSTANTS["ideal_cycles"]
    with pytest.raises(UserError, match="hbm = 'fast'"):
        Memory(clock_mhz=175, hbm="fast")


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 40), st.integers(1, 16))
def test_walk(heads, head_words, latency, ahead):
    """Cycle by cycle, with flags instead of queues."""
    known_at = [None] * heads
    key = value = cycle = 0
    while value < heads * head_words:
        head = value // head_words
        if known_at[head] is not None and known_at[head] <= cycle:
            value += 1
        if key < heads * head_words and (key % head_words or key // head_words - head < ahead):
            key += 1
            if key % head_words == 0:
                known_at[key // head_words - 1] = cycle + latency
        cycle += 1
        assert cycle < 10000
    assert walk_cycles(heads, head_words, latency, ahead) == cycle


def test_walk_waits_for_the_current_slot():
    """Three heads of one beat, one held: its k is read in the cycle it comes, its v a latency later."""
    assert walk_cycles(3, 1, 11, 16, held=2, until=40) == 40 + 11 + 1
    assert walk_cycles(3, 1, 11, 16, held=2, until=2) == walk_cycles(3, 1, 11, 16) == 2 + 11 + 1
    assert walk_cycles(3, 1, 11, 16, held=0, until=5) == 5 + walk_cycles(3, 1, 11, 16)


def test_walk_of_nothing():
    assert walk_cycles(0, 2, 11, 16) == 0


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("density", [0.0, 0.1, 1.0])
def test_row_times(groups, density):
    """Against the gather's rule, an element a cycle."""
    rng = np.random.default_rng(7)
    lanes, words = 8, 5
    active = rng.random((2, 37)) < density
    arrival = np.cumsum(rng.integers(1, 6, (2, words)), axis=1)
    rows, marker = row_times(active, groups, words, lanes, arrival)
    for p in range(2):
        for group in range(groups):
            expected, time = [], -1
            for word in range(words):
                time = max(time, arrival[p, word])
                picked = [
                    i
                    for i in range(word * lanes, (word + 1) * lanes)
                    if i < 37 and i % groups == group and active[p, i]
                ]
                expected += [time + k for k in range(len(picked))]
                time += max(1, len(picked))
            found = rows[p, group][np.isfinite(rows[p, group])]
            assert found.tolist() == expected and marker[p, group] == time - 1


def test_active_inputs_have_their_density():
    from symlight.model.config import preset

    shape, densities = preset("mid"), np.array([[0.3, 0.1, 0.5, 0.05], [0, 1, 0.5, 0.2], [0.2] * 4])
    active = active_inputs(shape, densities, 200, np.random.default_rng(1))
    found = [[one[site].mean() for site in ("qkv", "decay", "up", "down")] for one in active]
    assert np.allclose(found, densities, atol=0.01) and active[1]["down"].shape == (200, shape.ffn)


def test_history():
    """When beat n was through, as a list of beats would say."""
    rng = random.Random(3)
    history, times = _History(1, 2), [None]
    count, end = 0, 0
    for _ in range(50):
        beats, gap = rng.randint(1, 16), rng.randint(0, 9)
        end = end + gap + beats
        times += range(end - beats + 1, end + 1)
        count += beats
        history.add(np.array([count]), np.array([float(end)]))
        assert history.when(np.array([max(1, count - 20)]))[0] == times[max(1, count - 20)]
    assert history.when(np.array([count]))[0] == end


def stream(total: int, **options) -> float:
    """Cycles from the first address of one run of `total` beats to its last beat, the slowest of 32 ports."""
    engine = config.card("u50c")
    memory = Memory(**{"clock_mhz": 175, **options})
    ports = Ports(engine, memory, latencies(engine), 32, np.random.default_rng(2))
    ports.stream(np.full(32, total), np.zeros(32), np.zeros(32))
    assert (ports.beats == total).all()
    return ports.popped.max()


def test_a_long_run_is_as_fast_as_its_port():
    """2 MB a port: a beat a cycle, the first latency, at most one refresh before the DRAM is ahead."""
    memory = Memory(clock_mhz=175)
    assert (
        65536 + memory.latency
        < stream(65536)
        < 65536 + memory.latency + memory.opening + memory.refresh[1] + 2
    )
    assert stream(65536, hbm="ideal") == 65535 + CONSTANTS["ideal_cycles"]


def test_bytes_in_flight_limit_a_run():
    """1 KB in flight at some 35 cycles of latency: a beat a cycle no more."""
    latency = Memory(clock_mhz=175).latency
    assert stream(8192, bytes=1024) > 1.05 * 8192 * (latency + 16) / 32
    assert stream(8192, bytes=2048) < 1.1 * stream(8192)


def test_a_refresh_costs_its_time_when_nothing_is_ahead():
    slow, fast = stream(16), stream(16, hbm="ideal")
    assert fast == 15 + CONSTANTS["ideal_cycles"]
    assert (
        slow
        <= 16
        + Memory(clock_mhz=175).latency
        + sum(CONSTANTS[name] for name in ("trp", "trcd", "trp", "trfc", "trcd")) * 175 / 900
    )


def test_latencies_follow_the_engine():
    small, large = latencies(config.card("sim4")), latencies(config.card("u50c"))
    assert large.drain > small.drain and large.head == small.head and large.statistics == small.statistics
    assert all(value > 0 for value in vars(large).values())
