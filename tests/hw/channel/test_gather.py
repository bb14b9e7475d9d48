"""hw.channel.gather: active rows and dense streams, and that the bench can fail."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from symlight.hw.channel.gather import Gather
from symlight.hw.config import Engine
from tests.benches.bench import BenchError, run_bench

DEPTH = 8


def engine(lanes):
    return Engine(channels=8, lanes=lanes, vector_words=DEPTH)


@pytest.mark.parametrize("lanes, seed", [(16, 1), (16, 2), (32, 3)])
def test_gather(lanes, seed):
    run_bench(
        Gather(engine(lanes)),
        "channel.cocotb_gather",
        parameters={"lanes": lanes, "depth": DEPTH},
        seed=seed,
    )


class _DropsSign(Gather):
    """A gather that takes -1 for 1."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.inner = inner = Gather(self._engine)
        for name, member in self.signature.members.items():
            if name != "items":
                if member.is_signature:
                    wiring.connect(m, getattr(inner, name), wiring.flipped(getattr(self, name)))
                elif member.flow == wiring.In:
                    m.d.comb += getattr(inner, name).eq(getattr(self, name))
                else:
                    m.d.comb += getattr(self, name).eq(getattr(inner, name))
        m.d.comb += [
            self.items.valid.eq(inner.items.valid),
            inner.items.ready.eq(self.items.ready),
            self.items.p.eq(inner.items.p),
        ]
        with m.If(inner.items.p.value == -1):
            m.d.comb += self.items.p.value.eq(1)
        return m


def test_bench_sees_a_wrong_value():
    with pytest.raises(BenchError, match="AssertionError"):
        run_bench(
            _DropsSign(engine(16)),
            "channel.cocotb_gather",
            "picks_what",
            parameters={"lanes": 16, "depth": DEPTH},
        )
