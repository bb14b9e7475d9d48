"""Bench of hw.channel.fetch.Fetch: program order, credit, KV beside weights, counters, faults and abort."""

import cocotb

from symlight.hw.channel.fetch import Fetch
from symlight.hw.channel.receive import TAGS
from tests.benches.channel.fetch_bench import ENGINE, INDEX, IO_POINTER, PATTERNS, POINTER, FetchBench, Work
from tests.benches.channel.memory_bench import low_half

LIMIT = {"timeout_time": 2_000_000, "timeout_unit": "ns"}
DIRECT_READ = {"work": Work.DIRECT_READ, "channel": INDEX, "traffic": 8}


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=PATTERNS, stall=PATTERNS)
async def reads_what_the_commands_say(dut, idle, stall):
    tb = FetchBench(
        dut, idle, stall, memory=PATTERNS[(PATTERNS.index(idle) + PATTERNS.index(stall)) % 4], delay=30
    )
    await tb.bench.reset()
    for _ in range(12):
        tb.random_step()
    dut.clear.value = 1
    await tb.bench.step()
    dut.clear.value = 0
    await tb.run(limit=60_000)
    assert await tb.counts() == tb.traffic
    dut.clear.value = 1
    await tb.bench.step()
    dut.clear.value = 0
    assert not any((await tb.counts()).values())


@cocotb.test(**LIMIT)
async def one_beat_a_cycle(dut):
    """A dense stream arrives without a gap, and so do single-beat rows that do not merge."""
    tb = FetchBench(dut, delay=8)
    await tb.bench.reset()
    tb.send(
        {"work": Work.MATRIX, "stream": 1, "base": 64, "words": 4, "beats": 3, "log_groups": 0, "columns": 8}
    )
    tb.send(
        {"work": Work.MATRIX, "stream": 0, "words": 20, "beats": 1, "log_groups": 0, "columns": 8},
        range(0, 300, 3),
    )
    await tb.run(limit=1000)
    for part in (tb.beats.cycles[:192], tb.beats.cycles[192:]):
        assert part == list(range(part[0], part[0] + len(part)))


@cocotb.test(**LIMIT)
async def latency(dut):
    tb = FetchBench(dut)
    await tb.bench.reset()
    matrix = {"work": Work.MATRIX, "stream": 0, "words": 2, "beats": 3, "log_groups": 0, "columns": 8}
    tb.commands.send([matrix])
    await tb.bench.step(20)  # the command waits for its rows
    tb.rows.send([{"row": 9, "valid": 1, "last": 1}])
    tb.expected = [POINTER + (27 + k) * ENGINE.beat_bytes for k in range(3)]
    await tb.run(limit=100)
    assert tb.memory.cycles == [tb.rows.cycles[0] + Fetch.LATENCY]
    assert tb.beats.cycles[0] == tb.memory.cycles[0] + tb.memory.delay + Fetch.BEAT_LATENCY


@cocotb.test(**LIMIT)
async def blocked_lanes_stop_weights_but_not_kv(dut):
    tb = FetchBench(dut)
    tb.bench.agents.remove(tb.beats)
    tb.beats.idle()
    await tb.bench.reset()
    tb.send({**DIRECT_READ, "count": 500})
    await tb.bench.step(200)
    assert ENGINE.read_beats - 16 < tb.reservation.asked <= ENGINE.read_beats
    tb.send_kv(5000, 300)
    await tb.bench.until(lambda: tb.kv.count == 300, limit=1000)
    assert tb.reservation.asked <= ENGINE.read_beats
    tb.bench.agents.append(tb.beats)
    await tb.run(limit=1000)


@cocotb.test(**LIMIT)
async def kv_in_flight_is_limited_until_a_fence_waits(dut):
    tb = FetchBench(dut, delay=200)
    await tb.bench.reset()
    tb.send_kv(5000, 600)
    await tb.bench.step(150)
    assert ENGINE.kv_inflight - 16 < tb.reservation.kv_most <= ENGINE.kv_inflight
    tb.send({"work": Work.FENCE})
    tb.send({**DIRECT_READ, "count": 5})
    await tb.bench.step(150)
    assert tb.reservation.kv_most > 8 * ENGINE.kv_inflight
    await tb.run(limit=5000)
    assert [address for address, _ in tb.memory.bursts][-1] == POINTER, (
        "DIRECT_READ overtook the fenced KV reads"
    )
    assert len(tb.memory.bursts) <= TAGS


@cocotb.test(**LIMIT)
async def a_fence_waits_for_its_own_reads_only(dut):
    """The reads of the next KV command, already offered, stay behind the weights that the fence lets go."""
    tb = FetchBench(dut, delay=20)
    await tb.bench.reset()
    tb.send_kv(5000, 300)
    tb.send_kv(9000, 300)
    tb.send({"work": Work.FENCE})
    tb.send({**DIRECT_READ, "count": 100})
    await tb.run(limit=5000)
    addresses = [address for address, _ in tb.memory.bursts]
    weights = [i for i, address in enumerate(addresses) if address not in tb.kv_addresses]
    second = [i for i, address in enumerate(addresses) if address >= POINTER + 9000 * ENGINE.beat_bytes]
    assert len(weights) == 7 and weights[-1] < second[3], "the fence waited for another command's reads"


@cocotb.test(**LIMIT)
async def weights_go_before_kv(dut):
    tb = FetchBench(dut, memory="slow")
    await tb.bench.reset()
    tb.send({**DIRECT_READ, "count": 60})
    await tb.bench.until(lambda: len(tb.memory.bursts) == 1, limit=200)
    tb.send_kv(5000, 10)
    await tb.run(limit=2000)
    # The AR register may have held a KV burst for nothing else was ready; it is never two in a row while
    # weights wait.
    assert tb.memory.bursts[-1][0] in tb.kv_addresses or tb.memory.bursts[-2][0] in tb.kv_addresses


@cocotb.test(**LIMIT)
async def fault_names_the_burst(dut):
    tb = FetchBench(dut, delay=40)
    await tb.bench.reset()
    tb.send({**DIRECT_READ, "io": 1, "base": 512, "count": 40})
    tb.memory.faulty = {IO_POINTER + (512 + k) * ENGINE.beat_bytes for k in (21, 35)}
    await tb.bench.until(lambda: tb.beats.count == 40, limit=500)
    assert int(dut.fault.value) and int(dut.fault_address.value) == low_half(
        IO_POINTER + (512 + 16) * ENGINE.beat_bytes
    )
    await tb.bench.reset()
    assert not int(dut.fault.value)


@cocotb.test(**LIMIT)
async def abort_then_reset_then_work(dut):
    tb = FetchBench(dut, stall="slow", memory="random", delay=50)
    await tb.bench.reset()
    for _ in range(12):
        tb.random_step()
    tb.send_kv(1 << 21, 200)
    await tb.bench.step(120)
    assert not int(dut.quiet.value)
    dut.abort.value = 1
    await tb.bench.step()
    accepted = len(tb.memory.bursts)
    await tb.bench.until(lambda: int(dut.quiet.value), limit=3000)
    assert len(tb.memory.bursts) <= accepted + 1 and not tb.memory.pending
    tb.bench.agents.clear()
    fresh = FetchBench(dut)
    fresh.bench.rng.seed(tb.bench.seed + 1)
    await fresh.bench.reset()
    for _ in range(8):
        fresh.random_step()
    await fresh.run(limit=5000)
