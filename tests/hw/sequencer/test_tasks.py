"""hw.sequencer.tasks."""

from tests.benches.bench import run_bench
from tests.benches.sequencer.sequencer_bench import sequencer


def test_tasks():
    assert run_bench(sequencer(), "sequencer.cocotb_tasks") == 5
