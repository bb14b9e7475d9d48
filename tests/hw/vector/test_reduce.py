"""hw.vector.reduce."""

from symlight.hw.vector.reduce import DrainReduce
from tests.benches.bench import run_bench
from tests.benches.vector.vector_bench import SideBySide

LATENCY = {1: 2, 4: 2, 6: 2, 28: 3}


def test_reduce():
    components = {channels: DrainReduce(channels, 4) for channels in LATENCY}
    assert {channels: component.LATENCY for channels, component in components.items()} == LATENCY
    design = SideBySide(**{f"reduce{channels}": component for channels, component in components.items()})
    assert run_bench(design, "vector.cocotb_reduce", parameters={"channels": list(LATENCY)}) == 4
