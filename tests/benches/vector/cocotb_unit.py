"""Bench of hw.vector.unit: every route of a word operation, with its parameters, results, counts and end."""

import cocotb

from symlight.hw.types import Task
from symlight.hw.vector.session_state import EncoderPath
from tests.benches.sequencer.sequencer_bench import IDLE, LIMIT
from tests.benches.vector.paths_bench import UNIT_ENGINE as ENGINE
from tests.benches.vector.unit_bench import Unit


@cocotb.test(**LIMIT)
@cocotb.parametrize(idle=IDLE)
async def passes(dut, idle):
    """All tasks in the order of a pass, twice; the state that is left."""
    unit = Unit(dut, idle)
    await unit.start()
    assert EncoderPath(ENGINE).LATENCY < 16
    for _ in range(2):
        await unit.embed()
        for layer in range(2):
            await unit.spikes()
            await unit.events()
            await unit.decay(layer * ENGINE.heads, ENGINE.heads)
            await unit.mix(layer * ENGINE.heads)
            await unit.norm(Task.NORM_U)
            await unit.step(5)
            await unit.norm(Task.NORM_C)
        await unit.gelu(3)
        await unit.probe(ENGINE.channels)
        await unit.dump()
    await unit.bench.finish()


@cocotb.test(**LIMIT)
@cocotb.parametrize(name=["events", "step", "gelu", "probe", "decay"])
async def longest_runs(dut, name):
    """A word a cycle for many words: parameters and results keep up."""
    unit = Unit(dut)
    await unit.start()
    arguments = {
        "events": (5,),
        "step": (16,),
        "gelu": (16,),
        "probe": (16,),
        "decay": (0, ENGINE.state_words),
    }[name]
    for _ in range(4):
        await getattr(unit, name)(*arguments)
    await unit.dump()
    await unit.bench.finish()
