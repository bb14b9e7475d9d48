"""Bench of hw.channel.burst.BurstMerger: the same beats in the same order, in legal bursts."""

import cocotb

from symlight.hw.axi import MAX_BURST, PAGE_BYTES
from symlight.hw.channel.burst import BURST, RUN, BurstMerger
from symlight.hw.types import BEAT_ADDRESS
from tests.benches.bench import Bench, Sink, Source, parameters

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
PATTERNS = ["never", "random", "bursts", "slow"]


def page():
    """Beats of 4 KB."""
    return PAGE_BYTES // parameters()["beat_bytes"]


def beats_of(pieces):
    return [p["address"] + k for p in pieces for k in range(p["beats"])]


def burst(address, beats):
    return {"address": address, "beats": beats, "less_one": beats - 1}


def pieces_of(run):
    """Bursts of a run that nothing merges with."""
    pieces, address, left = [], run["address"], run["beats"]
    while left:
        beats = min(left, MAX_BURST, page() - address % page())
        pieces.append(burst(address, beats))
        address, left = address + beats, left - beats
    return pieces


def random_runs(rng, count):
    """Runs that often continue each other, and often meet page ends."""
    runs, address = [], 0
    for _ in range(count):
        choice = rng.random()
        if choice < 0.3:
            address = rng.randrange((1 << BEAT_ADDRESS) - 5000)
        elif choice < 0.5:
            address = (1 + rng.randrange(1000)) * page() - rng.randrange(20)
        beats = rng.choice([1, 1, 2, 3, 9, 15, 16, 17, 31, 32, rng.randrange(1, 64), rng.randrange(1, 500)])
        runs.append({"address": address, "beats": beats})
        address += beats
    return runs


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=PATTERNS, stall=PATTERNS)
async def same_beats_in_legal_bursts(dut, idle, stall):
    bench = Bench(dut)
    source, sink = Source(bench, "i", RUN, idle=idle), Sink(bench, "o", BURST, stall=stall)
    await bench.reset()
    runs = random_runs(bench.rng, 150)
    source.send(runs)
    await bench.until(
        lambda: sum(b["beats"] for b in sink.received) >= sum(r["beats"] for r in runs), limit=60_000
    )
    await bench.finish()
    assert beats_of(sink.received) == beats_of(runs)
    for piece in sink.received:
        assert 1 <= piece["beats"] <= MAX_BURST
        assert piece["address"] % page() + piece["beats"] <= page()
    assert int(dut.idle.value)


@cocotb.test(**LIMIT)
async def cuts_a_run_greedily(dut):
    """Also a run as long as an address allows, at every distance from a page end."""
    bench = Bench(dut)
    source, sink = Source(bench, "i", RUN), Sink(bench, "o", BURST)
    await bench.reset()
    runs = [
        {"address": page() * (2 * k + 1) - k, "beats": beats}
        for beats in (1, 15, 16, 17, 33, page() + 18)
        for k in range(18)
    ]
    runs.append({"address": 0x123456, "beats": 40_000})
    source.send(runs)
    expected = [piece for run in runs for piece in pieces_of(run)]
    await bench.until(lambda: sink.count >= len(expected), limit=20_000)
    await bench.finish()
    assert sink.received == expected


@cocotb.test(**LIMIT)
async def merges_what_continues(dut):
    """Runs of three beats on end, one a cycle: full bursts; and one-beat runs, without a lost cycle."""
    bench = Bench(dut)
    source, sink = Source(bench, "i", RUN), Sink(bench, "o", BURST)
    await bench.reset()
    for size, count in ((3, 32), (1, 96), (16, 6)):
        before, start = sink.count, source.count
        source.send({"address": 8 * page() + size * k, "beats": size} for k in range(count))
        await bench.until(lambda: source.count == start + count, limit=count + 10)
        await bench.step(10)
        assert sink.received[before:] == [burst(8 * page() + 16 * k, 16) for k in range(6)]
        cycles = source.cycles[start:]
        assert cycles == list(range(cycles[0], cycles[0] + count)), "the merger stalled"


@cocotb.test(**LIMIT)
async def one_separate_run_a_cycle(dut):
    bench = Bench(dut)
    source, sink = Source(bench, "i", RUN), Sink(bench, "o", BURST)
    await bench.reset()
    source.send({"address": 100 * k, "beats": 3} for k in range(50))
    await bench.until(lambda: sink.count == 50, limit=100)
    await bench.finish()
    assert sink.cycles == [cycle + BurstMerger.LATENCY for cycle in source.cycles]
    assert source.cycles == list(range(source.cycles[0], source.cycles[0] + 50))
