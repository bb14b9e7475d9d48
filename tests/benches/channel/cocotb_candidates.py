"""Bench of hw.channel.candidates.CandidateList: against the sampler's own order."""

import cocotb
import numpy as np

from symlight.hw.channel.logits import Candidate, CandidateList
from symlight.model import sampling
from tests.benches.bench import Agent, Bench, fields, parameters, stalls

LIMIT = {"timeout_time": 4_000_000, "timeout_unit": "ns"}
EXTREME = 2**46


class Rows(Agent):
    """Drives rows of one head operation, and holds each until it is taken; junk between them."""

    def __init__(self, bench, idle):
        super().__init__(bench)
        self.queue, self.pattern, self.offered, self.held = [], stalls(bench.rng, idle), False, 0

    def idle(self):
        self.dut.row_valid.value, self.offered = 0, False

    def drive(self):
        if not self.offered:
            self.offered = bool(self.queue) and not next(self.pattern)
            rng = self.bench.rng
            logit, token, some = (
                self.queue[0] if self.offered else (rng.getrandbits(47), rng.getrandbits(16), 1)
            )
            self.dut.row_valid.value = int(self.offered)
            self.dut.row.value = logit
            self.dut.id.value, self.dut.some.value = token, some

    def sample(self):
        if self.offered and not int(self.dut.hold.value):
            self.queue.pop(0)
            self.count += 1
            self.offered = False
        elif self.offered:
            self.held += 1

    def check_empty(self):
        assert not self.queue


class List:
    def __init__(self, dut, idle="never"):
        self.bench = Bench(dut)
        self.dut, self.rows = dut, Rows(self.bench, idle)
        for name in ("start", "wanted", "finish", "pop"):
            getattr(dut, name).value = 0

    @property
    def next(self):
        return fields(Candidate, int(self.dut.next.value))

    async def pulse(self, name):
        getattr(self.dut, name).value = 1
        await self.bench.step()
        getattr(self.dut, name).value = 0

    async def operation(self, rows, wanted=True):
        """Send rows (logit, id, some); returns the cycles that the last of them took."""
        self.dut.wanted.value = int(wanted)
        await self.pulse("start")
        self.dut.wanted.value = self.bench.rng.getrandbits(1)
        self.rows.queue += rows
        begin = self.bench.cycle
        await self.bench.until(lambda: not self.rows.queue, limit=300_000)
        return self.bench.cycle - begin

    async def idle(self):
        """Until the queue is empty; returns the cycles that it took."""
        begin, count = self.bench.cycle, parameters()["candidates"]
        await self.bench.until(lambda: int(self.dut.idle.value), limit=(count + 1) * (count + 3))
        return self.bench.cycle - begin

    async def popped(self, limit):
        """All candidates behind the first in order, or the first `limit` of them."""
        out = []
        await self.idle()
        await self.pulse("finish")
        while True:
            await self.bench.step(CandidateList.NEXT_CYCLES - 1 + self.bench.rng.randrange(3))
            if not self.next["valid"] or len(out) == limit:
                return out
            out.append((self.next["logit"], self.next["id"]))
            await self.pulse("pop")


def expected(rows, count):
    """The list without its first row."""
    real = [(logit, token) for logit, token, some in rows if some]
    by_id = dict((token, logit) for logit, token in real)
    ids, values = sampling.candidates(np.array([logit for logit, _ in real], np.int64), count)
    assert len(by_id) == len(real)
    return [(int(value), real[i][1]) for i, value in zip(ids, values, strict=True)][1:] if real else []


def random_rows(rng, count, *, spread, padding=0.1, step=1):
    return [
        (rng.randrange(-spread, spread + 1), step * i, int(rng.random() >= padding)) for i in range(count)
    ]


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=["never", "random", "bursts"])
async def random_operations(dut, idle):
    """Fewer rows than places, as many, many more; few different values, so that most are equal."""
    tb, count = List(dut, idle), parameters()["candidates"]
    await tb.bench.reset()
    rng = tb.bench.rng
    for size in (0, 1, count - 1, count, count + 1, 3 * count, 10 * count):
        for spread in (0, 3, EXTREME):
            rows = random_rows(rng, size, spread=spread, step=rng.choice([1, 7]))
            await tb.operation(rows)
            limit = rng.choice([1, count + 1])  # what is left must be forgotten
            assert await tb.popped(limit) == expected(rows, count)[:limit]
    await tb.bench.finish()


@cocotb.test(**LIMIT)
async def orders_and_extremes(dut):
    """Rising, falling and equal logits, both signs, the largest numbers; only the first few are asked for."""
    tb, count = List(dut), parameters()["candidates"]
    await tb.bench.reset()
    size = 3 * count
    for logits in (
        range(size),
        range(size, 0, -1),
        [7] * size,
        [-1 - i for i in range(size)],
        [EXTREME * (-1) ** i for i in range(size)],
        [(i - size // 2) << 38 for i in range(size)],
    ):
        rows = [(logit, 65535 - size + i, 1) for i, logit in enumerate(logits)]
        await tb.operation(rows)
        assert await tb.popped(5) == expected(rows, count)[:5]
    await tb.bench.finish()


@cocotb.test(**LIMIT)
async def nothing_is_kept_unless_asked_for(dut):
    """A greedy operation takes a row a cycle, and leaves nothing to the one behind it."""
    tb, count = List(dut), parameters()["candidates"]
    await tb.bench.reset()
    rng = tb.bench.rng
    await tb.operation(random_rows(rng, 3 * count, spread=100))
    await tb.idle()
    held = tb.rows.held
    rows = [(i, i, 1) for i in range(4 * count)]
    assert await tb.operation(rows, wanted=False) <= len(rows) + 1 and tb.rows.held == held
    assert await tb.popped(9) == []
    rows = random_rows(rng, 3, spread=100, padding=0)
    await tb.operation(rows)
    assert await tb.popped(9) == expected(rows, count)
    await tb.bench.finish()


@cocotb.test(**LIMIT)
async def rows_cost_what_they_move(dut):
    """A row below all others costs nothing, one between them as many cycles as rows move up, and two; no row
    is held as long as the queue has room."""
    tb, count = List(dut), parameters()["candidates"]
    await tb.bench.reset()
    await tb.operation([(1000 - i, i, 1) for i in range(count)])  # each goes to the end of the list
    assert await tb.idle() <= (1 + CandidateList.INSERT) * count
    tb.rows.queue += [(900 - i, count + i, 1) for i in range(4 * count)]
    await tb.bench.until(lambda: not tb.rows.queue, limit=10_000)
    assert await tb.idle() <= 1 and tb.rows.held == 0
    for logit, token, moved in ((2000, 0xFFF0, count - 1), (1000 - (count - 3), 0xFFF1, 0)):
        tb.rows.queue.append((logit, token, 1))
        await tb.bench.until(lambda: not tb.rows.queue, limit=10)
        cycles = await tb.idle()
        assert abs(cycles - moved - CandidateList.INSERT) <= 2, f"{cycles} cycles for {moved} rows"
    tb.rows.queue += [(3000 + i, 100 + i, 1) for i in range(3 * count)]  # more than the queue holds
    await tb.bench.until(lambda: not tb.rows.queue, limit=3 * count * (count + 2))
    assert tb.rows.held > 0
    await tb.bench.finish()
