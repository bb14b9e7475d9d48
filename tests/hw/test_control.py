"""hw.control."""

from dataclasses import replace

import pytest

from symlight.hw.config import card
from symlight.hw.control import GIE, ISR, Control
from symlight.hw.interface import arguments
from tests.benches.bench import BenchError, run_bench

TESTS = 11


@pytest.mark.parametrize("channels, seed", [(2, 1), (2, 2), (32, 3)])
def test_control(channels, seed):
    engine = replace(card("sim2"), channels=channels)
    count = run_bench(
        Control(engine=engine),
        "control.cocotb_control",
        parameters={"channels": channels},
        seed=seed,
    )
    assert count == TESTS


def test_map_ends_within_the_bus():
    last = arguments(32)[-1]
    assert last.offset + last.size <= 0x1000


class _Broken(Control):
    """Arguments follow the host's writes, and events are lost while interrupts are disabled."""

    def _run(self, m, port, written):
        ctrl = super()._run(m, port, written)
        m.d.sync += self.args.eq(written)
        return ctrl

    def _interrupts(self, m, port):
        words = super()._interrupts(m, port)
        with m.If(~words[GIE // 4]):
            m.d.sync += words[ISR // 4].eq(0)
        return words


@pytest.mark.parametrize(
    "name, reason", [("arguments_are_latched", "args changed"), ("interrupts", "0 == 3")]
)
def test_bench_sees_broken_control(name, reason):
    with pytest.raises(BenchError, match=reason):
        run_bench(
            _Broken(engine=card("sim2")),
            "control.cocotb_control",
            name,
            parameters={"channels": 2},
        )
