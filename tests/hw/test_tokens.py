"""hw.sequencer.tokens."""

import pytest
from bench import run_bench
from sequencer_bench import sequencer

pytestmark = pytest.mark.timeout(120)


def test_tokens():
    assert run_bench(sequencer(), "cocotb_tokens") == 16
