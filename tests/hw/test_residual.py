"""hw.vector.residual."""

import pytest
from bench import run_bench
from paths_bench import paths

pytestmark = pytest.mark.timeout(120)


def test_residual():
    assert run_bench(paths(), "cocotb_residual") == 18
