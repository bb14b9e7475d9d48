"""The benches of hw.sequencer see mistakes."""

import pytest
from bench import BenchError, run_bench
from broken_sequencer import broken


@pytest.mark.parametrize(
    "module, name, reason",
    [
        ("cocotb_argmax", "best_row.*never.*ties", "best is [0-9]+, expected"),
        ("cocotb_store", "barrier", "ready is not"),
        ("cocotb_dispatch", "passes.*never", "expected"),
        ("cocotb_tokens", "end_of_sequence", "stop_reason"),
        ("cocotb_session", "last_write", "before the answer"),
        ("cocotb_load", "images.*never.*never", "AssertionError"),
        ("cocotb_state", "there_and_back.*never.*size=0", "AssertionError|KeyError"),
        ("cocotb_tasks", "passes.*never", "before the reciprocal"),
    ],
)
def test_bench_sees_a_mistake(module, name, reason):
    with pytest.raises(BenchError, match=reason):
        run_bench(broken(), module, name)
