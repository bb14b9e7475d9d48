"""hw.sequencer.dispatch."""

from bench import run_bench
from sequencer_bench import sequencer


def test_dispatch():
    assert run_bench(sequencer(), "cocotb_dispatch") == 17
