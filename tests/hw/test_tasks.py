"""hw.sequencer.tasks."""

from bench import run_bench
from sequencer_bench import sequencer


def test_tasks():
    assert run_bench(sequencer(), "cocotb_tasks") == 5
