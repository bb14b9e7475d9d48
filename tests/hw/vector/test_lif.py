"""hw.vector.lif."""

from symlight.hw.vector.lif import Lif
from tests.benches.bench import run_bench
from tests.benches.vector.vector_bench import SideBySide


def test_lif():
    assert run_bench(SideBySide(lif=Lif(4)), "vector.cocotb_lif") == 16
