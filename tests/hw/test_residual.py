"""hw.vector.residual."""

from bench import run_bench
from paths_bench import paths


def test_residual():
    assert run_bench(paths(), "cocotb_residual") == 18
