"""hw.sequencer.tokens."""

from bench import run_bench
from sequencer_bench import sequencer


def test_tokens():
    assert run_bench(sequencer(), "cocotb_tokens") == 16
