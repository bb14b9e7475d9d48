"""hw.vector.layernorm."""

from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.layernorm import LayerNormNormalise, LayerNormStatistics


def test_layernorm():
    statistics, normalise = LayerNormStatistics(16, 128), LayerNormNormalise(4)
    assert statistics.LATENCY <= 24
    design = SideBySide(statistics=statistics, normalise=normalise)
    assert run_bench(design, "cocotb_layernorm") == 40 + 2 + 1 + 60 + 22
