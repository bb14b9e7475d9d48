"""hw.sequencer.state_transfer."""

from bench import run_bench
from sequencer_bench import sequencer


def test_state():
    assert run_bench(sequencer(), "cocotb_state") == 15
