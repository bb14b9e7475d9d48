"""The simulation's side of queue_bench.py: a cocotb bench of ten lines."""

import cocotb

from tests.benches.bench import Bench, Sink, Source


@cocotb.test(timeout_time=100_000, timeout_unit="ns")
async def keeps_order(dut):
    bench = Bench(dut)
    source, sink = Source(bench, "i", idle="random"), Sink(bench, "o", stall="bursts")
    await bench.reset()
    words = [bench.rng.getrandbits(16) for _ in range(200)]
    source.send(words)
    await bench.until(lambda: len(sink.received) == len(words), limit=10_000)
    await bench.finish()
    assert sink.received == words
