"""hw.vector.unit."""

import pytest
from bench import run_bench
from paths_bench import unit

pytestmark = pytest.mark.timeout(120)


def test_unit():
    assert run_bench(unit(), "cocotb_unit") == 9
