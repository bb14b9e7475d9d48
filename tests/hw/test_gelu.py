"""hw.vector.gelu."""

import pytest
from bench import run_bench
from vector_bench import SideBySide

from symlight.hw.vector.gelu import Gelu

pytestmark = pytest.mark.timeout(120)


def test_gelu():
    assert run_bench(SideBySide(gelu=Gelu(16)), "cocotb_gelu") == 5
