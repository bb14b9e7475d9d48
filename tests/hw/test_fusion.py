"""hw.vector.fusion."""

import pytest
from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.fusion import MixFusion, Reciprocal

pytestmark = pytest.mark.timeout(120)


def test_fusion():
    assert run_bench(SideBySide(reciprocal=Reciprocal(), mix=MixFusion(4)), "cocotb_fusion") == 28
