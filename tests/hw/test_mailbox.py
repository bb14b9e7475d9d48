"""hw.mailbox, together with hw.counters."""

import gc
from dataclasses import replace

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from symlight.hw.config import card
from symlight.hw.counters import ADD, Counters
from symlight.hw.interface import COUNTERS, MAILBOX, Io
from symlight.hw.mailbox import Mailbox, TokenWriter, io_write_layout, mailbox_fields
from symlight.hw.types import BEAT_ADDRESS
from tests.benches.bench import BenchError, run_bench

BUILD_ID = 0xFEDCBA9876543210_0F1E2D3C4B5A6978
TESTS = 24


class Station(wiring.Component):
    """Mailbox, counters and token writer, wired as in the kernel but with write ports of their own.

    Parameters
    ----------
    engine : Engine
    mailbox : type
        Class of the mailbox.
    clears : bool
        Whether `clear` reaches the token writer.
    """

    def __init__(self, *, engine, mailbox=Mailbox, clears=True):
        self._engine, self._mailbox, self._clears = engine, mailbox, clears
        writes = stream.Signature(io_write_layout(engine))
        super().__init__(
            {
                "clear": In(1),
                "add": In(stream.Signature(ADD)),
                "idle": Out(1),
                "start": In(1),
                "fields": In(mailbox_fields()),
                "writes_quiet": In(1),
                "write": Out(writes),
                "done": Out(1),
                "token": In(stream.Signature(16)),
                "count": Out(range(Io.MAX_NEW + 1)),
                "token_write": Out(writes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.counters = counters = Counters()
        m.submodules.mailbox = mailbox = self._mailbox(engine=self._engine, build_id=BUILD_ID)
        m.submodules.tokens = tokens = TokenWriter(engine=self._engine)
        wiring.connect(m, wiring.flipped(self.add), counters.add)
        wiring.connect(m, wiring.flipped(self.token), tokens.token)
        wiring.connect(m, tokens.write, wiring.flipped(self.token_write))
        wiring.connect(m, mailbox.write, wiring.flipped(self.write))
        m.d.comb += [
            counters.clear.eq(self.clear),
            tokens.clear.eq(self.clear & self._clears),
            self.idle.eq(counters.idle),
            self.count.eq(tokens.count),
            mailbox.start.eq(self.start),
            mailbox.fields.eq(self.fields),
            mailbox.writes_quiet.eq(self.writes_quiet),
            counters.index.eq(mailbox.index),
            mailbox.value.eq(counters.value),
            self.done.eq(mailbox.done),
        ]
        return m


def _run(lanes, seed=1, test_filter=None, **options):
    station = Station(engine=replace(card("sim2"), lanes=lanes), **options)
    return run_bench(
        station,
        "control.cocotb_mailbox",
        test_filter,
        {"lanes": lanes, "build_id": hex(BUILD_ID)},
        seed,
    )


@pytest.mark.parametrize("lanes, seed", [(16, 1), (32, 2), (32, 3), (64, 4)])
def test_mailbox(lanes, seed):
    assert _run(lanes, seed) == TESTS


class _IgnoresLoading(Mailbox):
    """Trusts `writes_quiet` at once."""

    SETTLE = 1


@pytest.mark.parametrize(
    "name, reason",
    [
        ("slow_memory", "before the answers"),
        ("tokens/", "AssertionError: assert [0-9]+ == 0"),
    ],
)
def test_bench_sees_broken_mailbox(name, reason):
    with pytest.raises(BenchError, match=reason):
        _run(16, test_filter=name, mailbox=_IgnoresLoading, clears=False)


@pytest.mark.filterwarnings("ignore:.*created but never used")
def test_refuses_build_id():
    with pytest.raises(ValueError, match="not a number of 128 bits"):
        Mailbox(engine=card("sim2"), build_id=1 << 128)
    gc.collect()  # here Amaranth notices that the refused component is not used


@pytest.mark.parametrize("lanes", [16, 32, 64])
def test_places_are_whole_beats(lanes):
    assert Io.TOKENS % lanes == 0 and Io.MAILBOX % lanes == 0
    assert (MAILBOX["counters"] + 2 * COUNTERS) * 4 % lanes == 0
    assert Io.SIZE // lanes <= 1 << BEAT_ADDRESS
