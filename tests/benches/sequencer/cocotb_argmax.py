"""Bench of hw.sequencer.argmax."""

import cocotb

from symlight.hw.sequencer.argmax import Argmax
from tests.benches.bench import Agent, Bench
from tests.benches.sequencer.sequencer_bench import ENGINE, IDLE, LIMIT, Ports, Strobes

CHANNELS = 8  # words of a pass
LATENCY = 2  # cycles from a word to its effect on `best`
TOP = (1 << 47) - 1


class Best(Agent):
    """Compares `best` with the running maximum, LATENCY cycles after every word."""

    def __init__(self, bench, source):
        super().__init__(bench)
        self.source, self.due, self.running = source, [], None

    def sample(self):
        if self.due and self.due[0][0] == self.bench.cycle:
            expected = self.due.pop(0)[1]
            got = self.source.ports.get("best")
            assert got == expected, f"best is {got}, expected {expected}"
            self.count += 1
        word = self.source.driven
        if word is not None:
            if word["first"]:
                self.running = None
            logit, token, some = word["row"]
            if some:
                # Largest logit, then the lowest id.
                self.running = max(self.running or (logit, -token), (logit, -token))
            if self.running is not None:
                self.due.append((self.bench.cycle + LATENCY, -self.running[1]))

    def check_empty(self):
        assert not self.due


class Words(Strobes):
    """Words of the drain bus from (logit, token, some) rows."""

    def put(self, item):
        logit, token, some = item["row"]
        rng = self.bench.rng
        # Unused bits are whatever the channel has there.
        low, high = logit & 0xFFFFFFFF, logit >> 32
        word = [low, high, token | rng.getrandbits(16) << 16, some | rng.getrandbits(31) << 1]
        word += [rng.getrandbits(32) for _ in range(ENGINE.lanes - 4)]
        self.ports.set(word=word, first=item["first"])


def pass_of(rng, kind: str):
    """(logit, token, some) of every channel; at least one has a row."""
    channels = CHANNELS
    tokens = rng.sample(range(1 << 16), channels)
    logits = {
        "random": [rng.getrandbits(48) - (1 << 47) for _ in range(channels)],
        "ties": [rng.choice([-5, 7, 7, 7]) for _ in range(channels)],
        "negative": [-rng.randrange(1, 1 << rng.randrange(1, 47)) for _ in range(channels)],
        "extreme": [rng.choice([TOP, -TOP - 1, 0, -1, 1 << 32, -(1 << 32)]) for _ in range(channels)],
        "equal": [-TOP - 1] * channels,
    }[kind]
    some = [rng.random() < 0.7 for _ in range(channels)]
    some[rng.randrange(channels)] = True
    return list(zip(logits, tokens, map(int, some), strict=True))


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, kind=["random", "ties", "negative", "extreme", "equal"])
async def best_row(dut, idle, kind):
    bench = Bench(dut)
    source = Words(bench, Ports(dut, Argmax(ENGINE), "argmax"), "valid", ("first", "word"), idle)
    best = Best(bench, source)
    await bench.reset()
    for _ in range(15):
        rows = pass_of(bench.rng, kind)
        source.send([{"row": row, "first": i == 0} for i, row in enumerate(rows)])
    await bench.until(lambda: not source.queue, limit=15 * CHANNELS * 20)
    await bench.step(LATENCY + 1)
    await bench.finish()
    assert best.count >= 15


@cocotb.test(**LIMIT)
async def only_one_channel_has_rows(dut):
    """Channels without rows say anything about logit and id; every place of the one with rows."""
    bench = Bench(dut)
    source = Words(bench, Ports(dut, Argmax(ENGINE), "argmax"), "valid", ("first", "word"))
    best = Best(bench, source)
    await bench.reset()
    for place in range(CHANNELS):
        rows = [(TOP, 0, 0)] * CHANNELS
        rows[place] = (-TOP - 1, 40000 + place, 1)
        source.send([{"row": row, "first": i == 0} for i, row in enumerate(rows)])
    await bench.until(lambda: not source.queue, limit=1000)
    await bench.step(LATENCY + 1)
    await bench.finish()
    assert best.count > 0
