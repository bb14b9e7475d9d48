"""The paths of hw.vector.state and hw.vector.attention."""

import pytest
from bench import run_bench
from paths_bench import paths

pytestmark = pytest.mark.timeout(120)


def test_paths():
    assert run_bench(paths(), "cocotb_paths") == 24
