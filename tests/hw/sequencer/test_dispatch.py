"""hw.sequencer.dispatch."""

from tests.benches.bench import run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_dispatch():
    assert run_bench(sequencer(), "sequencer.cocotb_dispatch") == 17
