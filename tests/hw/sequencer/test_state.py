"""hw.sequencer.state_transfer."""

from tests.benches.bench import run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_state():
    assert run_bench(sequencer(), "sequencer.cocotb_state") == 15
