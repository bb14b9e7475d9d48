"""hw.sequencer.session."""

import pytest

from tests.benches.bench import BenchError, run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_session():
    assert run_bench(sequencer(), "sequencer.cocotb_session") == 28


def test_a_count_that_comes_too_early_is_noticed():
    with pytest.raises(BenchError, match="finds the counters busy"):
        run_bench(sequencer(), "sequencer.cocotb_session", "commands", parameters={"round_trip": 1})
