"""hw.sequencer.tokens."""

from tests.benches.bench import run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_tokens():
    assert run_bench(sequencer(), "sequencer.cocotb_tokens") == 19
