"""A small kernel with the real kernel's ports, to test the simulated card without the accelerator.

A run reads `n_prompt` beats from pointer `hbm01`, adds up the first 32-bit word of each, idles for `n_new`
cycles, and writes one beat to pointer `io`: run id, sum, worst read response, command. `flags` 1 makes it
break a rule: an assertion fails; `flags` 2 makes it withdraw an address that was not accepted.
"""

from types import SimpleNamespace

from amaranth.back import verilog
from amaranth.hdl import (
    Assert,
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    Elaboratable,
    Module,
    Mux,
    ResetSignal,
    Signal,
)
from amaranth.lib import wiring

from symlight.hw.axi import BURST_INCR, AxiLite, AxiMaster, axi_pins
from symlight.hw.config import Engine
from symlight.hw.control import Control
from symlight.hw.interface import KERNEL_NAME

ENGINE = Engine(channels=2)
BUILD_ID = "0123456789abcdef0123456789abcdef"


def _ports(prefix, signature):
    """Signals of a bus under the names that the kernel's Verilog has, and the bus object made of them."""
    bus = signature.create()
    names = {}
    for name, signal in axi_pins(bus).items():
        signal.name = f"{prefix}_{name}"
        names[signal.name] = signal
    return bus, names


class StandIn(Elaboratable):
    """See the module's docstring."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.clock, self.reset_n = Signal(name="ap_clk"), Signal(name="ap_rst_n")
        self.interrupt = Signal(name="interrupt")
        self.bus, lite = _ports("s_axi_control", AxiLite().flip())
        self.memory, self.ports = [], [self.clock, self.reset_n, self.interrupt, *lite.values()]
        for k in range(engine.channels):
            bus, names = _ports(f"m_axi_hbm{k:02d}", AxiMaster(engine.beat_bytes))
            self.memory.append(SimpleNamespace(**axi_pins(bus)))
            self.ports += names.values()

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(self.clock), ResetSignal().eq(~self.reset_n)]
        m.submodules.control = control = Control(engine=self.engine)
        wiring.connect(m, wiring.flipped(self.bus), control.bus)
        m.d.comb += self.interrupt.eq(control.interrupt)

        size = (self.engine.beat_bytes - 1).bit_length()
        for bus in self.memory:
            m.d.comb += [
                bus.arsize.eq(size),
                bus.awsize.eq(size),
                bus.arburst.eq(BURST_INCR),
                bus.awburst.eq(BURST_INCR),
                bus.arlen.eq(0),
                bus.awlen.eq(0),
                bus.wstrb.eq(~0),
                bus.wlast.eq(1),
                bus.bready.eq(1),
                bus.rready.eq(1),
            ]
        args, reader, writer = control.args, self.memory[1], self.memory[0]
        # A port that nothing drives would become an input.
        m.d.comb += [s.eq(0) for bus in self.memory if bus is not reader for s in (bus.araddr, bus.arvalid)]
        m.d.comb += [
            s.eq(0)
            for bus in self.memory
            if bus is not writer
            for s in (bus.awaddr, bus.awvalid, bus.wdata, bus.wvalid)
        ]
        asked, got, idle = Signal(16), Signal(16), Signal(32)
        total, worst = Signal(32), Signal(2)
        m.d.comb += [
            writer.awaddr.eq(args.io),
            writer.wdata.eq(Cat(args.run_id, total, Cat(worst, Const(0, 30)), args.command)),
        ]
        with m.If(reader.rvalid):
            m.d.sync += [got.eq(got + 1), total.eq(total + reader.rdata[:32])]
            with m.If(reader.rresp > worst):
                m.d.sync += worst.eq(reader.rresp)
        with m.FSM():
            with m.State("IDLE"):
                with m.If(control.start):
                    m.d.sync += [asked.eq(0), got.eq(0), idle.eq(0), total.eq(0), worst.eq(0)]
                    m.next = "READ"
            with m.State("READ"):
                m.d.sync += Assert(~args.flags[0], "flag 1 was set")
                m.d.comb += [
                    reader.araddr.eq(
                        args.hbm01 + asked * self.engine.beat_bytes + Mux(args.flags[1], idle[:1] * 4096, 0)
                    ),
                    reader.arvalid.eq(asked != args.n_prompt),
                ]
                m.d.sync += idle.eq(Mux(args.flags[1], idle + 1, 0))
                with m.If(reader.arvalid & reader.arready):
                    m.d.sync += asked.eq(asked + 1)
                with m.If(got == args.n_prompt):
                    m.d.sync += idle.eq(0)
                    m.next = "DELAY"
            with m.State("DELAY"):
                m.d.sync += idle.eq(idle + 1)
                with m.If(idle >= args.n_new):
                    m.d.sync += [writer.awvalid.eq(1), writer.wvalid.eq(1)]
                    m.next = "WRITE"
            with m.State("WRITE"):
                with m.If(writer.awready):
                    m.d.sync += writer.awvalid.eq(0)
                with m.If(writer.wready):
                    m.d.sync += writer.wvalid.eq(0)
                with m.If(writer.bvalid):
                    m.d.comb += control.done.eq(1)
                    m.next = "IDLE"
        return m


def standin_verilog(engine: Engine = ENGINE) -> str:
    """Verilog of the stand-in kernel."""
    top = StandIn(engine)
    return verilog.convert(top, name=KERNEL_NAME, ports=top.ports, emit_src=False)
