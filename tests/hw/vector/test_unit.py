"""hw.vector.unit."""

from tests.benches.bench import run_bench
from tests.benches.vector.paths_bench import unit


def test_unit():
    assert run_bench(unit(), "vector.cocotb_unit") == 9
