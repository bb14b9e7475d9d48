"""Bench of hw.channel.gather.Gather against a plain list of what each command must pick."""

import cocotb

from symlight.hw.channel.gather import ROW, Gather
from symlight.hw.types import ChannelCommand, Item, Work
from tests.benches.bench import Agent, Bench, Sink, Source, parameters, stalls
from tests.benches.channel.channel_place import GroupColumnTable

LIMIT = {"timeout_time": 2_000_000, "timeout_unit": "ns"}
INDEX = 5  # of the channel under test
PATTERNS = ["never", "random", "bursts", "slow"]


class Words(Agent):
    """Broadcasts vector words, as many as the buffer holds beside those of unfinished commands."""

    def __init__(self, bench, idle, room):
        super().__init__(bench)
        self.queue, self.cycles, self.room, self.pattern = [], [], room, stalls(bench.rng, idle)

    def idle(self):
        self.dut.word_valid.value = 0

    def drive(self):
        go = bool(self.queue) and self.room() > self.count and not next(self.pattern)
        self.dut.word_valid.value = int(go)
        self.dut.word.value = self.bench.rng.getrandbits(len(self.dut.word))
        if go:
            self.dut.word.value = int.from_bytes(bytes(v & 255 for v in self.queue.pop(0)), "little")
            self.cycles.append(self.bench.cycle)
            self.count += 1

    def check_empty(self):
        assert not self.queue


def picked(command, vector):
    """Items and rows that the channel must send for one pass over `vector` (a list of words)."""
    columns, log_groups = command["columns"], command["log_groups"]
    group, stream = INDEX // columns, command["stream"]
    elements = [v for word in vector for v in word]
    rows = [
        e
        for e in range(len(elements))
        if group >> log_groups == 0 and e % (1 << log_groups) == group and (stream or elements[e])
    ]
    items = [{"value": elements[e], "valid_row": 1, "last": 0} for e in rows]
    sent = [{"row": e >> log_groups, "valid": 1, "last": 0} for e in rows]
    in_last_word = rows and rows[-1] >= len(elements) - len(vector[-1])
    if not in_last_word:
        items.append({"value": None, "valid_row": 0, "last": 0})
        sent.append({"row": None, "valid": 0, "last": 0})
    items[-1]["last"] = sent[-1]["last"] = 1
    return items, [] if stream else sent


class GatherBench:
    """Sources, sinks and expectations of one test."""

    def __init__(self, dut, idle="never", stall="never"):
        self.bench = bench = Bench(dut)
        self.lanes, self.depth = parameters()["lanes"], parameters()["depth"]
        self.place = GroupColumnTable(bench, INDEX)
        self.commands = Source(bench, "commands", ChannelCommand, idle=idle)
        self.words = Words(bench, idle, self.room)
        self.items = Sink(bench, "items", Item, stall=stall)
        self.rows = Sink(bench, "rows", ROW, stall=stall)
        self.expected_items, self.expected_rows, self.ends = [], [], []

    def room(self):
        """Words that may have been sent so far: those of complete commands and a buffer full."""
        return sum(words for end, words in self.ends if self.items.count >= end) + self.depth

    def send(self, command, vector):
        self.commands.send([command])
        if command["work"] not in (Work.MATRIX, Work.HEAD):
            return
        self.words.queue += vector
        for _ in range(command["count"] if command["work"] == Work.HEAD else 1):
            items, rows = picked(command, vector)
            self.expected_items += items
            self.expected_rows += rows
        self.ends.append((len(self.expected_items), len(vector)))

    def random_command(self):
        rng = self.bench.rng
        work = rng.choice([Work.MATRIX] * 6 + [Work.HEAD] * 2 + [Work.DIRECT_READ, Work.FENCE])
        log_groups = rng.randrange(self.lanes.bit_length())
        columns = rng.choice([1, 2, 3, 6, 8, 32])
        command = {
            "work": work,
            "stream": rng.randrange(2) if work in (Work.MATRIX, Work.HEAD) else 1,
            "words": rng.randrange(1, self.depth // 2),
            "columns": 32 if work == Work.HEAD else columns,
            "log_groups": 0 if work == Work.HEAD else log_groups,
            "count": rng.randrange(1, 4),
        }
        density = rng.choice([0, 0.05, 0.3, 1])
        extremes = [-128, -127, -1, 1, 127]
        vector = [
            [(rng.choice(extremes) if rng.random() < density else 0) for _ in range(self.lanes)]
            for _ in range(command["words"])
        ]
        return command, vector

    async def run(self, limit):
        await self.bench.until(
            lambda: (
                self.items.count >= len(self.expected_items)
                and self.rows.count >= len(self.expected_rows)
                and not self.commands.queue
            ),
            limit,
        )
        await self.bench.finish()
        pairs = (self.items, self.expected_items, "value"), (self.rows, self.expected_rows, "row")
        for sink, want, free in pairs:
            got = sink.received  # a marker's value or row means nothing
            assert [
                {**g, free: None} if w[free] is None else g for g, w in zip(got, want, strict=True)
            ] == want


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=PATTERNS, stall=PATTERNS)
async def picks_what_the_commands_say(dut, idle, stall):
    tb = GatherBench(dut, idle, stall)
    await tb.bench.reset()
    for _ in range(14):
        tb.send(*tb.random_command())
    await tb.run(limit=60_000)


@cocotb.test(**LIMIT)
async def one_item_a_cycle_across_words_and_commands(dut):
    tb = GatherBench(dut)
    await tb.bench.reset()
    for _ in range(3):
        for stream in (1, 0):
            command = {"work": Work.MATRIX, "stream": stream, "words": 2, "columns": 8, "log_groups": 0}
            tb.send(command, [[1 + i for i in range(tb.lanes)]] * 2)
    await tb.run(limit=1000)
    first = tb.items.cycles[0]
    assert tb.items.cycles == list(range(first, first + 12 * tb.lanes))


@cocotb.test(**LIMIT)
async def first_item_after_latency(dut):
    tb = GatherBench(dut)
    await tb.bench.reset()
    tb.commands.send([{"work": Work.MATRIX, "words": 1, "columns": 8}])
    await tb.bench.step(10)  # the command waits for its word
    tb.commands.queue.clear()
    tb.ends, tb.expected_items = [], [{"value": -3, "valid_row": 1, "last": 1}]
    tb.expected_rows = [{"row": 4, "valid": 1, "last": 1}]
    tb.words.queue = [[0] * 4 + [-3] + [0] * (tb.lanes - 5)]
    await tb.run(limit=100)
    assert tb.items.cycles == [tb.words.cycles[0] + Gather.LATENCY]
    assert tb.rows.cycles == [tb.words.cycles[0] + Gather.LATENCY + 1]


@cocotb.test(**LIMIT)
async def works_after_a_reset_in_the_middle(dut):
    tb = GatherBench(dut, stall="slow")
    await tb.bench.reset()
    for _ in range(5):
        tb.send(*tb.random_command())
    await tb.bench.step(60)
    tb.bench.agents.clear()
    fresh = GatherBench(dut)
    fresh.bench.rng.seed(tb.bench.seed + 1)
    await fresh.bench.reset()
    for _ in range(5):
        fresh.send(*fresh.random_command())
    await fresh.run(limit=10_000)
