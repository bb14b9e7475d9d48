"""hw.vector.fusion."""

from symlight.hw.vector.fusion import MixFusion, Reciprocal
from tests.benches.bench import run_bench
from tests.benches.vector.vector_bench import SideBySide


def test_fusion():
    assert run_bench(SideBySide(reciprocal=Reciprocal(), mix=MixFusion(4)), "vector.cocotb_fusion") == 101
