"""Bench of hw.vector.gelu."""

import cocotb
import numpy as np

from symlight.hw.vector.gelu import ENTRIES, Gelu
from symlight.model import ops
from tests.benches.bench import Bench
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, pack, run

LANES = 16


class Lookups(Pipe):
    """The lookup side; the table is written by hand."""

    def __init__(self, bench, idle="never"):
        component = Gelu(LANES)
        super().__init__(bench, "gelu", component, idle)
        self.values = self.inputs["w_values"]
        for port in ("w_valid", "w_word", "w_values"):
            del self.inputs[port]
        self.port("w_valid").value = 0

    async def load(self, table, gaps: bool = False):
        """Write a table and wait until it is there."""
        for word in range(ENTRIES // LANES):
            self.port("w_valid").value = 1
            self.port("w_word").value = word
            self.port("w_values").value = pack(self.values, table[word * LANES :][:LANES])
            await self.bench.step()
            self.port("w_valid").value = 0
            self.port("w_values").value = self.bench.rng.getrandbits(8 * LANES)
            self.port("w_word").value = ENTRIES // LANES - 1
            if gaps:
                await self.bench.step(self.bench.rng.randrange(4))
        await self.bench.step()
        assert int(self.port("busy").value)
        start = self.bench.cycle
        await self.bench.until(lambda: not int(self.port("busy").value), limit=ENTRIES + 8)
        assert self.bench.cycle - start >= ENTRIES - 8


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def looks_up(dut, idle):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    pipe = Lookups(bench, idle)
    await bench.reset()
    for gaps in (False, True):  # the second table replaces the first
        table = rng.integers(-127, 128, ENTRIES)
        await pipe.load(table, gaps)
    y = numbers(rng, 18, (200, LANES))
    y[: ENTRIES // LANES] = np.arange(-128, 128).reshape(-1, LANES)
    y[ENTRIES // LANES : 2 * ENTRIES // LANES] = np.arange(127, -129, -1).reshape(-1, LANES)
    pipe.send_all({"y": y}, {"out": ops.gelu(ops.sat(y, 8), table)})
    await run(bench, pipe)  # its resets keep the table


@cocotb.test(**LIMIT)
async def loads_again_after_reset_on_the_way(dut):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    pipe = Lookups(bench)
    await bench.reset()
    table = rng.integers(-127, 128, ENTRIES)
    pipe.port("w_valid").value = 1
    pipe.port("w_word").value = ENTRIES // LANES - 1
    await bench.step()
    pipe.port("w_valid").value = 0
    await bench.step(100)
    assert int(pipe.port("busy").value)
    await bench.reset()
    pipe.forget()
    await bench.step()
    assert not int(pipe.port("busy").value)
    await pipe.load(table)
    y = np.arange(-128, 128).reshape(-1, LANES)
    pipe.send_all({"y": y}, {"out": ops.gelu(y, table)})
    await run(bench, pipe, restart=False)
