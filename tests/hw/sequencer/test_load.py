"""hw.sequencer.load."""

from tests.benches.bench import run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_load():
    assert run_bench(sequencer(), "sequencer.cocotb_load") == 10
