"""hw.vector.requantise."""

import pytest

from symlight.hw.vector.requantise import Requantise
from tests.benches.bench import run_bench
from tests.benches.vector.vector_bench import SideBySide


@pytest.mark.parametrize("seed", [1, 2])
def test_requantise(seed):
    assert run_bench(SideBySide(requantise=Requantise(4)), "vector.cocotb_requantise", seed=seed) == 5
