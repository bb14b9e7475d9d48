"""Bench of hw.lib.queue.Queue: order, throughput, latency, level."""

import cocotb

from tests.benches.bench import Bench, Sink, Source, parameters

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}


def make(dut, idle, stall):
    bench = Bench(dut)
    return bench, Source(bench, "i", None, idle=idle), Sink(bench, "o", None, stall=stall)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts", "slow"], stall=["never", "random", "bursts", "slow"])
async def keeps_order(dut, idle, stall):
    bench, source, sink = make(dut, idle, stall)
    await bench.reset()
    items = [bench.rng.getrandbits(len(source.payload)) for _ in range(200)]
    source.send(items)
    await bench.until(lambda: sink.count == len(items), limit=200 * 20)
    await bench.finish()
    assert sink.received == items
    assert int(dut.level.value) == 0


@cocotb.test(**LIMIT)
async def one_word_a_cycle_after_latency(dut):
    bench, source, sink = make(dut, "never", "never")
    await bench.reset()
    source.send(range(100))
    await bench.until(lambda: sink.count == 100, limit=200)
    assert sink.cycles[0] == source.cycles[0] + parameters()["latency"]
    assert sink.cycles == list(range(sink.cycles[0], sink.cycles[0] + 100))


@cocotb.test(**LIMIT)
async def fills_up_and_is_empty_after_reset(dut):
    bench, source, sink = make(dut, "never", "never")
    depth = parameters()["depth"]
    await bench.reset()
    bench.agents.remove(sink)  # nobody takes
    sink.idle()
    source.send(range(depth + 1))
    await bench.step(depth + 10)
    assert source.count == depth and int(dut.level.value) == depth and not int(dut.i__ready.value)
    source.queue.clear()
    await bench.reset()
    bench.agents.append(sink)
    source.send([7, 8, 9])
    await bench.until(lambda: sink.count == 3, limit=20)
    await bench.finish()
    assert sink.received == [7, 8, 9]
