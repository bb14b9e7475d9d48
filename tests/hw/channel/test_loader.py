"""hw.channel.loader, and that its bench can fail."""

import pytest
from amaranth.hdl import Signal

from symlight.hw.channel import loader
from symlight.hw.channel.loader import Loader
from symlight.hw.config import Engine
from tests.benches.bench import BenchError, run_bench

ENGINE = Engine(channels=8, lanes=16, kv_beats=2048)


@pytest.mark.parametrize("seed", [1, 2])
def test_loader(seed):
    assert (
        run_bench(
            Loader(ENGINE),
            "channel.cocotb_loader",
            parameters={"lanes": ENGINE.lanes},
            seed=seed,
        )
        == 20
    )


class _KeepsCurrentSlot(Loader):
    """A loader that overwrites the current token's slot with what memory holds there."""

    def _file(self, m, filing):
        shadow = loader.Queue(filing.o.p.shape(), depth=2)
        m.submodules.shadow = shadow
        m.d.comb += [
            shadow.i.valid.eq(filing.o.valid),
            filing.o.ready.eq(shadow.i.ready),
            shadow.i.p.eq(filing.o.p),
            shadow.i.p.drop.eq(0),
            shadow.i.p.drops_first.eq(0),
        ]
        super()._file(m, shadow)


class _MixesHalves(Loader):
    """A loader that files the first v beat of a slot with its keys."""

    def _file(self, m, filing):
        super()._file(m, filing)
        was = Signal()
        with m.If(self.arrivals.valid & self.arrivals.ready):
            m.d.sync += was.eq(self.arrivals.p.value)
        m.d.comb += self.arrivals.p.value.eq(was)


@pytest.mark.parametrize("broken", [_KeepsCurrentSlot, _MixesHalves])
def test_bench_sees_a_beat_in_the_wrong_place(broken):
    with pytest.raises(BenchError, match="AssertionError"):
        run_bench(
            broken(ENGINE),
            "channel.cocotb_loader",
            "every_slot",
            parameters={"lanes": ENGINE.lanes},
        )
