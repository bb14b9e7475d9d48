"""hw.sequencer.argmax."""

from tests.benches.bench import run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_argmax():
    assert run_bench(sequencer(), "sequencer.cocotb_argmax") == 21
