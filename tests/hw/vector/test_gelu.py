"""hw.vector.gelu."""

from symlight.hw.vector.gelu import Gelu
from tests.benches.bench import run_bench
from tests.benches.vector.vector_bench import SideBySide


def test_gelu():
    assert run_bench(SideBySide(gelu=Gelu(16)), "vector.cocotb_gelu") == 5
