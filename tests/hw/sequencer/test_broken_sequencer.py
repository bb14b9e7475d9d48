"""The benches of hw.sequencer see mistakes."""

import pytest

from tests.benches.bench import BenchError, run_bench
from tests.benches.sequencer.broken_sequencer import broken


@pytest.mark.parametrize(
    "module, name, reason",
    [
        ("sequencer.cocotb_argmax", "best_row.*never.*ties", "best is [0-9]+, expected"),
        ("sequencer.cocotb_store", "barrier", "ready is not"),
        ("sequencer.cocotb_dispatch", "passes.*never", "expected"),
        ("sequencer.cocotb_tokens", "end_of_sequence", "stop_reason"),
        ("sequencer.cocotb_session", "last_write", "before the answer"),
        ("sequencer.cocotb_load", "images.*never.*never", "AssertionError"),
        ("sequencer.cocotb_state", "there_and_back.*never.*size=0", "AssertionError|KeyError"),
        ("sequencer.cocotb_tasks", "passes.*never", "before the reciprocal"),
    ],
)
def test_bench_sees_a_mistake(module, name, reason):
    with pytest.raises(BenchError, match=reason):
        run_bench(broken(), module, name)
