"""The paths of hw.vector.session_state and hw.vector.attention."""

from bench import run_bench
from paths_bench import paths


def test_paths():
    assert run_bench(paths(), "cocotb_paths") == 24
