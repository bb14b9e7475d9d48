"""Bench of hw.vector.reduce."""

import cocotb
import numpy as np

from symlight.hw.config import FEW_CHANNELS, JOINED
from tests.benches.bench import Bench, parameters
from tests.benches.vector.vector_bench import IDLE, LIMIT, SUMMED_LANES, Pipe, numbers, pack, reduction, run


class Drain(Pipe):
    """A word is there when it is an answer or a channel puts a side word on the bus."""

    def __init__(self, bench, name, channels, idle):
        super().__init__(bench, name, reduction(channels), idle)
        self.channels = channels
        self.latency["o_side"] = self.latency["o_valid"]

    def words(self, answers, sides, words):
        """answers [n] 0/1, sides [n, channels] 0/1, words [n, channels, SUMMED_LANES]; one of both is set."""
        totals = words.sum(axis=1)
        for answer, side, word, total in zip(answers, sides, words, totals):
            inputs = {"i_valid": answer} | {f"i_side__{k}": side[k] for k in range(self.channels)}
            inputs |= {f"i_word__{k}": word[k] for k in range(self.channels)}
            packed = {port: pack(self.inputs[port], value) for port, value in inputs.items()}
            self.queue.append(
                (packed, {"o_word": total, "answer": int(answer), "side": int(side.any())}, inputs)
            )

    def idle(self):
        for port in self.inputs:
            self.port(port).value = 0

    def drive(self):
        item = self.queue.pop(0) if self.queue and not next(self.pattern) else None
        self.history.append(item)
        for port in self.inputs:
            junk = self.bench.rng.getrandbits(32 * SUMMED_LANES) if port.startswith("i_word") else 0
            self.port(port).value = junk if item is None else item[0][port]

    def sample(self):
        latency = self.latency["o_valid"]
        item = self.history[-1 - latency] if len(self.history) > latency else None
        seen = int(self.port("o_valid").value), int(self.port("o_side").value)
        due = (0, 0) if item is None else (item[1]["answer"], item[1]["side"])
        assert seen == due, f"{self.name}: valid and side are {seen}, expected {due}"
        if item is not None:
            self.check("o_valid", {"o_word": item[1]["o_word"]}, item[2])
            self.count += 1
        self.history = self.history[-1 - latency :]


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def sums_channels(dut, idle):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    pipes = []
    for channels in parameters()["channels"]:
        pipe = Drain(bench, f"reduce{channels}", channels, idle)
        size = (200, channels, SUMMED_LANES)
        words = numbers(rng, 32, size) // channels
        # An answer comes from the channels of one of at least `least` columns, a side word from one channel.
        least = parameters().get("columns", JOINED) if channels > FEW_CHANNELS else 1
        columns = rng.integers(least, max(least, channels // 2) + 1, 200)
        column = rng.integers(0, columns)
        answering = np.arange(channels)[None] % columns[:, None] == column[:, None]
        answers = rng.integers(0, 2, 200)
        sides = (1 << rng.integers(0, channels, 200))[:, None] >> np.arange(channels) & 1
        sides *= (~answers & 1 | rng.integers(0, 8, 200) // 7)[:, None]
        speaking = np.where(answers[:, None] == 1, answering, sides == 1)
        words = np.where(speaking[:, :, None], words, 0)
        pipe.words(answers, sides, words)
        pipes.append(pipe)
    await run(bench, *pipes)
