"""hw.vector.residual."""

from tests.benches.bench import run_bench
from tests.benches.vector.paths_bench import paths


def test_residual():
    assert run_bench(paths(), "vector.cocotb_residual") == 18
