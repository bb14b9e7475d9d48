"""hw.channel.writer: order, responses, faults, abort, and that the bench can fail."""

import pytest

from symlight.hw.channel.writer import Writer
from symlight.hw.config import Engine
from tests.benches.bench import BenchError, run_bench

ENGINE = Engine(channels=2, lanes=16)


@pytest.mark.parametrize("seed", [1, 2])
def test_writer(seed):
    assert (
        run_bench(
            Writer(ENGINE),
            "channel.cocotb_writer",
            parameters={"lanes": ENGINE.lanes},
            seed=seed,
        )
        == 23
    )


class _ForgetsIo(Writer):
    """A writer that takes every address as relative to its own pointer."""

    def _address(self, place):
        return self.pointer + (place.address << 4)


def test_bench_sees_a_wrong_address():
    with pytest.raises(BenchError, match="AssertionError"):
        run_bench(
            _ForgetsIo(ENGINE),
            "channel.cocotb_writer",
            "writes_in_order",
            parameters={"lanes": ENGINE.lanes},
        )
