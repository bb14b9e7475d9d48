"""hw.sequencer.state."""

import pytest
from bench import run_bench
from sequencer_bench import sequencer

pytestmark = pytest.mark.timeout(120)


def test_state():
    assert run_bench(sequencer(), "cocotb_state") == 15
