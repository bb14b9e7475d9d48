"""hw.vector.reduce."""

import pytest

from symlight.hw.vector.reduce import DrainReduce
from tests.benches.bench import BenchError, run_bench
from tests.benches.vector.vector_bench import SUMMED_LANES, SideBySide, reduction

LATENCY = {1: 2, 4: 2, 6: 2, 13: 3, 28: 3, 32: 3}


def test_reduce():
    components = {channels: reduction(channels) for channels in LATENCY}
    assert {channels: component.LATENCY for channels, component in components.items()} == LATENCY
    design = SideBySide(**{f"reduce{channels}": component for channels, component in components.items()})
    assert run_bench(design, "vector.cocotb_reduce", parameters={"channels": list(LATENCY)}) == 4


def test_many_channels_must_be_joined():
    with pytest.raises(ValueError, match="28 channels, of which 2 may be joined: 4 are needed"):
        DrainReduce(28, SUMMED_LANES, joined=2)


def test_two_neighbours_that_speak_at_once_are_noticed():
    design = SideBySide(reduce28=reduction(28))
    with pytest.raises(BenchError, match="o_word"):
        run_bench(design, "vector.cocotb_reduce", parameters={"channels": [28], "columns": 2})
