"""hw.vector.unit."""

from bench import run_bench
from paths_bench import unit


def test_unit():
    assert run_bench(unit(), "cocotb_unit") == 9
