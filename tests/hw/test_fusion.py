"""hw.vector.fusion."""

from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.fusion import MixFusion, Reciprocal


def test_fusion():
    assert run_bench(SideBySide(reciprocal=Reciprocal(), mix=MixFusion(4)), "cocotb_fusion") == 28
