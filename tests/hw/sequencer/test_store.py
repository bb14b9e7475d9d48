"""hw.sequencer.store."""

import pytest

from tests.benches.bench import BenchError, run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_store():
    assert run_bench(sequencer(), "sequencer.cocotb_store") == 8


def test_a_channel_too_far_ahead_is_noticed():
    with pytest.raises(BenchError, match="more than 7 operations of a channel wait"):
        run_bench(sequencer(), "sequencer.cocotb_store", "barrier", parameters={"lead": 1})
