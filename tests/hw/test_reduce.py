"""hw.vector.reduce."""

from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.reduce import DrainReduce

CHANNELS = (1, 4, 6, 28)  # two stages up to 8, three above


def test_reduce():
    design = SideBySide(**{f"reduce{channels}": DrainReduce(channels, 4) for channels in CHANNELS})
    assert run_bench(design, "cocotb_reduce", parameters={"channels": list(CHANNELS)}) == 4
