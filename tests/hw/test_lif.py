"""hw.vector.lif."""

from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.lif import Lif


def test_lif():
    assert run_bench(SideBySide(lif=Lif(4)), "cocotb_lif") == 16
