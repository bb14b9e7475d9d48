"""hw.vector.gelu."""

from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.gelu import Gelu


def test_gelu():
    assert run_bench(SideBySide(gelu=Gelu(16)), "cocotb_gelu") == 5
