"""hw.sequencer.argmax."""

from bench import run_bench
from sequencer_bench import sequencer


def test_argmax():
    assert run_bench(sequencer(), "cocotb_argmax") == 21
