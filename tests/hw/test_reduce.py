"""hw.vector.reduce."""

from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.reduce import DrainReduce

LATENCY = {1: 2, 4: 2, 6: 2, 28: 3}


def test_reduce():
    components = {channels: DrainReduce(channels, 4) for channels in LATENCY}
    assert {channels: component.LATENCY for channels, component in components.items()} == LATENCY
    design = SideBySide(**{f"reduce{channels}": component for channels, component in components.items()})
    assert run_bench(design, "cocotb_reduce", parameters={"channels": list(LATENCY)}) == 4
