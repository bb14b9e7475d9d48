"""hw.compiler.verilog: the folded text means the same."""

import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from symlight.hw.compiler.verilog import registers_in_place
from symlight.hw.lib.queue import Queue
from symlight.hw.vector.decay import DecayUpdate, ResidualSum
from symlight.hw.vector.gelu import Gelu
from tests.benches.bench import run_bench
from tests.benches.bench_build import to_verilog
from tests.benches.vector.vector_bench import SideBySide


class _Mixed(wiring.Component):
    """Registers of every form: kept, with a default, in slices, read as next value too."""

    i: In(8)
    enable: In(1)
    kept: Out(8)
    pulse: Out(1)
    sliced: Out(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        following = Signal(8)
        m.d.sync += self.pulse.eq(0)
        with m.If(self.enable):
            m.d.sync += [self.kept.eq(self.i), self.pulse.eq(1), self.sliced[:4].eq(self.i)]
        with m.Switch(self.i):
            with m.Case("1-------"):
                m.d.sync += self.sliced[4:].eq(self.kept)
                m.d.comb += following.eq(self.i)
        m.d.sync += self.o.eq(following)
        return m


def test_forms():
    text = registers_in_place(to_verilog(_Mixed()))
    assert "if (enable) begin\n      kept <= i;\n" in text
    assert "    pulse <= 1'h0;\n    if (enable) begin\n      pulse <= 1'h1;\n" in text
    # Only the next value of `o` has a name of its own: it is a signal of the design.
    assert text.count("always @*") == 1 and "o <= following;" in text.replace(" ;", ";")


class _Joined(wiring.Component):
    """A register of which two slices apart are assigned together."""

    i: In(8)
    o: Out(24)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.i[0]):
            m.d.sync += self.o[:8].eq(self.i)
        with m.If(self.i[1]):
            m.d.sync += [self.o.eq(0), self.o[8:16].eq(0xA5)]
        return m


def test_slices_assigned_together_stay():
    text = to_verilog(_Joined())
    (joined,) = re.findall(r"^ *\{ (\S+).*\} = ", text, re.M)
    folded = registers_in_place(text)
    assert re.search(rf"^  reg \[23:0\] {re.escape(joined)} ;$", folded, re.M), (
        "it is assigned, so it is there"
    )


def test_nothing_to_fold():
    text = "module top(a);\n  input a;\n  always @* begin\n    b = a;\n  end\nendmodule\n"
    assert registers_in_place(text) == text


@pytest.mark.parametrize(
    "component, module, parameters, count",
    [
        (lambda: Queue(16, depth=16), "lib.cocotb_queue", {"latency": 1, "depth": 16}, 18),
        (
            lambda: SideBySide(decay=DecayUpdate(4), residual=ResidualSum(4)),
            "vector.cocotb_decay",
            None,
            4,
        ),
        (lambda: SideBySide(gelu=Gelu(16)), "vector.cocotb_gelu", None, 5),
    ],
    ids=["queue", "pipelines", "memories"],
)
def test_same_behaviour(component, module, parameters, count):
    assert run_bench(registers_in_place(to_verilog(component())), module, parameters=parameters) == count
