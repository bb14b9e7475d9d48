"""Bench of hw.counters: sums of random adds, clearing, rates."""

import cocotb

from symlight.hw.counters import ADD, QUEUE, Counters
from symlight.hw.interface import COUNTERS
from tests.benches.bench import Agent, Bench, Source, bits

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
AMOUNT_BITS = ADD["amount"].width
LARGEST = (1 << AMOUNT_BITS) - 1


class Sums(Agent):
    """Expected counters, from what the design has accepted; counts cycles of `busy`."""

    def __init__(self, bench):
        super().__init__(bench)
        self.sums, self.cycles, self.busy, self.clear = [0] * COUNTERS, [], 0, False
        self.sent = []
        self.source = Source(bench, "add", None)

    def restart(self, idle):
        """Replace the source by one with pattern `idle`, with what is left of the queue."""
        self.bench.agents.remove(self.source)
        queue, self.source = self.source.queue, Source(self.bench, "add", None, idle=idle)
        self.source.queue = queue

    def send(self, adds):
        self.sent += adds
        self.source.queue += [bits(ADD, {"index": index, "amount": amount}) for index, amount in adds]

    def idle(self):
        self.dut.clear.value = 0

    def drive(self):
        self.dut.clear.value = int(self.clear)
        self.dut.index.value = self.bench.rng.randrange(COUNTERS)

    def sample(self):
        self.busy += int(self.dut.busy.value)
        taken = int(self.dut.add__valid.value) and int(self.dut.add__ready.value)
        if self.clear:
            assert not taken
            self.sums, self.clear, self.busy = [0] * COUNTERS, False, 0  # busy cycles of this clear
        if taken:
            index, amount = self.sent.pop(0)
            self.sums[index] += amount
            self.cycles.append(self.bench.cycle)

    def check_empty(self):
        assert not self.sent

    async def settle(self):
        """All that is sent has been added."""
        await self.bench.until(lambda: not self.sent, limit=20_000)
        await self.bench.step()
        await self.bench.until(
            lambda: int(self.dut.idle.value), limit=QUEUE * Counters.INTERVAL + COUNTERS + 4
        )

    async def check(self):
        """Read every counter, in random order, with just the promised latency."""
        await self.settle()
        self.bench.agents.remove(self)  # its drive would move the index
        for index in self.bench.rng.sample(range(COUNTERS), COUNTERS):
            self.dut.index.value = index
            await self.bench.step(Counters.READ_LATENCY)
            assert int(self.dut.value.value) == self.sums[index], f"counter {index}"
        self.bench.agents.append(self)


def random_adds(rng, count):
    """Runs on one counter, a few counters in turn, all counters; small and extreme amounts."""
    adds = []
    while len(adds) < count:
        few = rng.sample(range(COUNTERS), rng.choice((1, 1, 2, 3, COUNTERS)))
        amounts = rng.choice(
            ([1], [LARGEST], [0, 1, LARGEST], [rng.getrandbits(AMOUNT_BITS) for _ in range(8)])
        )
        adds += [(rng.choice(few), rng.choice(amounts)) for _ in range(rng.randrange(1, 40))]
    return adds[:count]


async def start(dut, idle="never"):
    """A cleared set of counters: memories may hold anything after reset."""
    bench = Bench(dut)
    sums = Sums(bench)
    sums.restart(idle)
    await bench.reset()
    sums.clear = True
    await bench.step(2)
    return bench, sums


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts", "slow"])
async def adds_up(dut, idle):
    bench, sums = await start(dut, idle)
    sums.send(random_adds(bench.rng, 400) + [(5, LARGEST)] * 60 + [(COUNTERS - 1, LARGEST)])
    await sums.check()
    assert max(sums.sums) > 1 << AMOUNT_BITS + 5
    await bench.finish()


@cocotb.test(**LIMIT)
async def one_add_each_interval(dut):
    bench, sums = await start(dut)
    await sums.settle()
    sums.send([(7, 3)] * 100)
    await sums.settle()
    gaps = [b - a for a, b in zip(sums.cycles, sums.cycles[1:])]
    assert gaps[: QUEUE - 1] == [1] * (QUEUE - 1), "the queue takes a burst"
    assert gaps[-50:] == [Counters.INTERVAL] * 50
    await sums.check()
    await bench.finish()
    assert sums.sums[7] == 300


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random"])
async def clear_parts_before_from_after(dut, idle):
    bench, sums = await start(dut, idle)
    for pause in (0, 1, 2, 3, 5, 17, 40, 60):
        sums.send(random_adds(bench.rng, 60))
        await bench.step(pause)
        sums.clear = True
        await sums.settle()
        assert sums.busy == Counters.CLEAR_CYCLES
    await sums.check()
    sums.clear = True
    await bench.step(50)
    sums.clear = True  # again while it is on
    await sums.check()
    assert sums.busy == Counters.CLEAR_CYCLES and not any(sums.sums)
    await bench.finish()


@cocotb.test(**LIMIT)
async def reset_forgets_what_waits(dut):
    bench, sums = await start(dut)
    for cycles in (1, 2, 3, 20):
        sums.send([(k, 9) for k in range(20)])
        await bench.step(cycles)
        sums.sent.clear()
        sums.source.queue.clear()
        await bench.reset()
        await bench.step()
        assert int(dut.idle.value) and not int(dut.busy.value)
        sums.clear = True
        sums.send([(3, 1), (3, LARGEST)])
        await bench.step(2)
        await sums.check()
    await bench.finish()
