"""The paths of hw.vector.session_state and hw.vector.attention."""

from tests.benches.bench import run_bench
from tests.benches.vector.paths_bench import paths


def test_paths():
    assert run_bench(paths(), "vector.cocotb_paths") == 24
