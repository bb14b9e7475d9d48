"""hw.vector.layernorm."""

from symlight.hw.vector.layernorm import LayerNormNormalise, LayerNormStatistics
from tests.benches.bench import run_bench
from tests.benches.vector.vector_bench import SideBySide


def test_layernorm():
    statistics, normalise = LayerNormStatistics(16, 128), LayerNormNormalise(4)
    assert statistics.LATENCY <= 24
    design = SideBySide(statistics=statistics, normalise=normalise)
    assert run_bench(design, "vector.cocotb_layernorm") == 40 + 2 + 1 + 60 + 22
