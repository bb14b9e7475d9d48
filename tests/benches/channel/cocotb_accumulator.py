"""Bench of AccumulatorBank: additions with hazards, drains beside them, clear."""

import cocotb
from amaranth.hdl import signed
from amaranth.lib import data

from symlight.hw.channel.accumulator import AccumulatorBank
from tests.benches.bench import Agent, Bench, bits, fields, parameters

LIMIT = {"timeout_time": 1_000_000, "timeout_unit": "ns"}
EDGES = [0, 1, -1, (1 << 31) - 1, -(1 << 31)]


class Ports(Agent):
    """Random traffic on both ports against a dictionary of sums."""

    def __init__(self, bench, rate, hot):
        super().__init__(bench)
        self.lanes, self.depth = parameters()["lanes"], parameters()["depth"]
        self.word = data.ArrayLayout(signed(32), self.lanes)
        self.rate, self.hot, self.on = rate, hot, True
        self.sums, self.late, self.expected, self.expecting = {}, None, [], False
        self.recent = []  # addresses that may not be drained yet
        self.words = []

    def idle(self):
        self.dut.add__valid.value = self.dut.drain__valid.value = self.dut.clear.value = 0

    def _numbers(self):
        rng = self.bench.rng
        return [
            rng.choice(EDGES) if rng.random() < 0.2 else rng.randrange(-(1 << 31), 1 << 31)
            for _ in range(self.lanes)
        ]

    def drive(self):
        rng, dut = self.bench.rng, self.dut
        dut.add__addends.value = self.late if self.late is not None else rng.getrandbits(32 * self.lanes)
        rests = parameters().get("shared") and rng.random() < 0.4  # a shared port must have drains too
        add, address = (
            self.on and rng.random() < self.rate and not rests,
            rng.randrange(2 if rng.random() < self.hot else self.depth),
        )
        dut.add__valid.value, dut.add__address.value = int(add), address
        drain = rng.randrange(self.depth)
        ask = (
            self.on
            and rng.random() < self.rate
            and not (add and address == drain)
            and drain not in self.recent
            and not (self.recent and parameters().get("shared"))
        )
        dut.drain__valid.value, dut.drain__read.value = int(ask), int(ask or rng.random() < 0.3)
        dut.drain__address.value = drain
        self.recent = [address] if add else []  # the sum is complete ADD_LATENCY = 2 cycles later
        self.late, self.expecting = None, ask
        if ask:
            self.expected.append(self.sums.pop(drain, [0] * self.lanes))
        if add:
            numbers = self._numbers()
            self.late = bits(self.word, dict(enumerate(numbers)))
            old = self.sums.get(address, [0] * self.lanes)
            self.sums[address] = [(a + b + (1 << 31)) % (1 << 32) - (1 << 31) for a, b in zip(old, numbers)]

    def sample(self):
        # The word of the previous cycle's request is there now; this cycle's comes with the next one.
        if len(self.expected) - self.expecting > len(self.words):
            self.words.append(fields(self.word, int(self.dut.drain__word.value)))
            self.count += 1


@cocotb.test(**LIMIT)
@cocotb.parametrize(rate=[0.2, 0.9, 1.0], hot=[0.0, 0.9])
async def random_traffic(dut, rate, hot):
    assert AccumulatorBank.ADD_LATENCY == 2 and AccumulatorBank.DRAIN_LATENCY == 1
    bench = Bench(dut)
    ports = Ports(bench, rate, hot)
    ports.idle()
    await bench.reset()
    await bench.step(1500)
    ports.on = False
    await bench.step(3)
    await bench.finish()
    assert ports.words == ports.expected and ports.count > 50


async def add_and_drain(bench, words):
    """Add 1, 2, .. in all lanes of words 0, 1, .., then drain all words."""
    dut, lanes, depth = bench.dut, parameters()["lanes"], parameters()["depth"]
    word = data.ArrayLayout(signed(32), lanes)
    for i in range(words):
        dut.add__valid.value, dut.add__address.value = 1, i
        await bench.step()
        dut.add__valid.value = 0
        dut.add__addends.value = bits(word, dict.fromkeys(range(lanes), i + 1))
        await bench.step()
    return word, depth


@cocotb.test(**LIMIT)
@cocotb.parametrize(how=["clear", "reset"])
async def forgets(dut, how):
    bench = Bench(dut)
    dut.add__valid.value = dut.drain__valid.value = dut.clear.value = 0
    await bench.reset()
    word, depth = await add_and_drain(bench, parameters()["depth"])
    if how == "reset":
        await bench.reset()
    else:
        dut.clear.value = 1
        await bench.step()
        dut.clear.value = 0
    await add_and_drain(bench, 1)
    for i in range(depth):
        dut.drain__valid.value, dut.drain__read.value, dut.drain__address.value = 1, 1, i
        await bench.step()
        assert set(fields(word, int(dut.drain__word.value))) == {1 if i == 0 else 0}


@cocotb.test(**LIMIT)
async def collision(dut):
    """Not allowed: the design's assertion has to end the simulation."""
    bench = Bench(dut)
    dut.add__valid.value = dut.drain__valid.value = dut.clear.value = 0
    await bench.reset()
    dut.add__valid.value = dut.drain__valid.value = dut.drain__read.value = 1
    dut.add__address.value = dut.drain__address.value = 3
    await bench.step(3)
