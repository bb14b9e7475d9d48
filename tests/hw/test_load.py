"""hw.sequencer.load."""

from bench import run_bench
from sequencer_bench import sequencer


def test_load():
    assert run_bench(sequencer(), "cocotb_load") == 10
