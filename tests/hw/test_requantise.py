"""hw.vector.requantise."""

import pytest
from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.requantise import Requantise


@pytest.mark.parametrize("seed", [1, 2])
def test_requantise(seed):
    assert run_bench(SideBySide(requantise=Requantise(4)), "cocotb_requantise", seed=seed) == 5
