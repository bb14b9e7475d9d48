"""Bench of hw.vector.lif."""

import cocotb
import numpy as np

from symlight.hw.vector.lif import Lif
from symlight.model import ops
from symlight.model.config import Numerics
from tests.benches.bench import Bench
from tests.benches.vector.vector_bench import IDLE, LIMIT, Pipe, numbers, run

LANES = 4
CONSTANTS = {
    "trained": Numerics(),
    "extreme": Numerics(lif_leak=32767, lif_threshold=32767, lif_clamp=32767),
    "half": Numerics(lif_leak=16384, lif_threshold=1, lif_clamp=1000),
    "never": Numerics(lif_leak=0, lif_threshold=501, lif_clamp=500),
}


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE, constants=list(CONSTANTS))
async def equals_model(dut, idle, constants):
    bench = Bench(dut)
    rng = np.random.default_rng(bench.seed)
    numerics = CONSTANTS[constants]
    pipe = Pipe(
        bench,
        "lif",
        Lif(LANES),
        idle,
        static={
            "leak": numerics.lif_leak,
            "threshold": numerics.lif_threshold,
            "clamp": numerics.lif_clamp,
        },
    )
    size = (300, LANES)
    v, x = numbers(rng, 16, size), numbers(rng, 16, size)
    v[0], x[0] = [-(2**15), 2**15 - 1, -(2**15), 2**15 - 1], [-(2**15), 2**15 - 1, 2**15 - 1, -(2**15)]
    # Around the threshold: x brings the leaked membrane to it, or misses by one.
    near = numerics.lif_threshold - ops.rnd(v * numerics.lif_leak, 15) + rng.integers(-1, 2, size)
    x = np.where(rng.random(size) < 0.3, np.clip(near, -(2**15), 2**15 - 1), x)
    membrane, spikes = ops.lif_step(v, x, numerics)
    assert spikes.any() == (constants != "never") and not spikes.all()
    pipe.send_all({"x": x, "v": v}, {"o": membrane, "s": spikes @ (1 << np.arange(LANES))})
    await run(bench, pipe)
