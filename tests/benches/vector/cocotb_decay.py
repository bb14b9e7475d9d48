"""Bench of hw.vector.decay."""

import cocotb
import numpy as np

from symlight.hw.vector.decay import DecayUpdate, ResidualSum
from symlight.model import ops
from tests.benches.bench import Bench
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, run

LANES = 4
SIZE = (500, LANES)


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def decay_and_residual(dut, idle):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    decay = Pipe(bench, "decay", DecayUpdate(LANES), idle)
    y, h, beta = numbers(rng, 18, SIZE), numbers(rng, 16, SIZE), numbers(rng, 16, SIZE, signed=False)
    y[0], h[0], beta[0] = (
        [2**17 - 1, -(2**17), 2**17 - 1, -(2**17)],
        [-(2**15), 2**15 - 1, 2**15 - 1, -(2**15)],
        2**16 - 1,
    )
    # Half of what moves: (z - h) * 2^15 / 2^16 with an odd difference is a tie.
    y[1], h[1], beta[1] = [101, -99, 0, 1], [0, 0, 1, 0], 2**15
    y[2:60], beta[2:60] = numbers(rng, 16, (58, LANES)), 2**15
    # Elements are heads of width 1 to the model, so that each has its own beta.
    moved = np.array([ops.decay_step(h[i], ops.sat(y[i], 16), beta[i]) for i in range(len(h))])
    decay.send_all({"y": y, "h": h, "beta": beta}, {"o": moved})

    residual = Pipe(bench, "residual", ResidualSum(LANES), idle)
    y, stream = numbers(rng, 18, SIZE), numbers(rng, 16, SIZE)
    y[0], stream[0] = [2**17 - 1, -(2**17), 2**17 - 1, -(2**17)], [2**15 - 1, -(2**15), -(2**15), 2**15 - 1]
    pre = ops.residual_sum(stream, y)
    assert (pre == 2**17 - 1).any() and (pre == -(2**17)).any()
    residual.send_all({"y": y, "residual": stream}, {"pre": pre})
    await run(bench, decay, residual)
