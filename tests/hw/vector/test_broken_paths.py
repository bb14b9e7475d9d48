"""The benches of the vector unit and its paths see mistakes."""

import gc

import pytest

from tests.benches.bench import BenchError, run_bench
from tests.benches.vector.broken_paths import broken_paths, broken_unit

pytestmark = pytest.mark.filterwarnings("ignore:.*created but never used")


@pytest.mark.parametrize(
    "design, module, name, reason",
    [
        (broken_paths, "vector.cocotb_paths", "decay.*never", "memory word [0-9]+ is"),
        (broken_paths, "vector.cocotb_residual", "passes.*never.*width=32", "cast_word is"),
        (broken_unit, "vector.cocotb_unit", "passes.*never", "cast is|dump_word is"),
    ],
)
def test_bench_sees_a_mistake(design, module, name, reason):
    with pytest.raises(BenchError, match=reason):
        run_bench(design(), module, name)
    gc.collect()  # the part that a broken class replaces is made, and never used
