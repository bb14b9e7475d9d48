"""hw.lib.queue, and that the bench helper can fail."""

import gc

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from symlight.hw.lib.queue import Queue
from symlight.hw.lib.stream_checker import StreamChecker
from tests.benches.bench import BenchError, run_bench


@pytest.mark.parametrize("depth, deep", [(2, False), (16, True)])
def test_queue(depth, deep):
    queue = Queue(16, depth=depth, deep=deep)
    assert run_bench(queue, "lib.cocotb_queue", parameters={"latency": queue.LATENCY, "depth": depth}) == 18


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_refuses_depth():
    with pytest.raises(ValueError, match="12 is not a power of two"):
        Queue(8, depth=12)
    gc.collect()  # the refused queue goes while its warning is filtered


class _Broken(wiring.Component):
    """A "queue" that drops its word when it has to wait."""

    i: In(stream.Signature(16))
    o: Out(stream.Signature(16))
    level: Out(5)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.i.ready.eq(1)
        m.d.sync += [self.o.payload.eq(self.i.payload), self.o.valid.eq(self.i.valid)]
        m.submodules.check = StreamChecker(self.o)
        return m


def test_bench_sees_lost_words():
    with pytest.raises(BenchError, match="does not hold|did not hold"):
        run_bench(_Broken(), "lib.cocotb_queue", "keeps_order")


def test_bench_sees_assertion_of_the_design():
    with pytest.raises(BenchError, match="a stream did not hold"):
        run_bench(_Broken(), "lib.cocotb_queue", "fills_up", parameters={"latency": 1, "depth": 16})


def test_bench_without_tests_fails():
    with pytest.raises(BenchError, match="0 tests"):
        run_bench(Queue(16, depth=2), "lib.cocotb_queue", "no_such_test")
