"""The design's top on a ULX3S: PLL, resets, pads, and the board's core as a Verilog module."""

from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Instance, Module, ResetSignal, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer
from amaranth_boards.ulx3s import ULX3S_85F_Platform

from symlight.base.errors import UserError

from .board import Board
from .core import LIGHTS
from .generate import BOARD_MODULE
from .sdram_ports import pins_signature

ESP32_PINS = ("en", "tx", "rx", "gpio0", "gpio5", "gpio16", "gpio17")  # of the resource
VCO_MHZ = (400, 800)  # range of the PLL's oscillator (ECP5 data sheet)


def whole(numerator: float, denominator: float, what: str) -> int:
    """A quotient that must be a whole number."""
    quotient = numerator / denominator
    if quotient != int(quotient) or quotient < 1:
        raise UserError(f"PLL: {numerator:g} MHz over {denominator:g} MHz is no whole number ({what})")
    return int(quotient)


class Ulx3sTop(Elaboratable):
    """Everything around module `symlight_board`.

    `sdram` is the PLL's first output, `sync` (the kernel) its second. The SDRAM's clock is `sdram` inverted:
    pins change half a cycle before it takes them. Button `fire1` and an unlocked PLL reset both domains.
    """

    def __init__(self, board: Board):
        self._board = board

    def elaborate(self, platform):
        m = Module()
        lock = self._clocks(m, platform)
        m.submodules.button = button = io.Buffer("i", platform.request("button_fire", 0, dir="-"))
        for name in ("sync", "sdram"):
            m.submodules[f"reset_{name}"] = ResetSynchronizer(~lock | button.i, domain=name)
        pins = pins_signature(self._board.chip).create(path=("pins",))
        uart = platform.request("uart", 0, dir={name: "-" for name in ("rx", "tx", "rts", "dtr")})
        m.submodules.rx, m.submodules.tx = rx, tx = io.Buffer("i", uart.rx), io.Buffer("o", uart.tx)
        lights = Signal(LIGHTS)
        ports = {
            f"{'o' if member.flow.name == 'Out' else 'i'}_sdram_{path[0]}": value
            for path, member, value in pins.signature.flatten(pins)
        }
        m.submodules.board = Instance(
            BOARD_MODULE,
            i_clk=ClockSignal("sync"),
            i_rst=ResetSignal("sync"),
            i_sdram_clk=ClockSignal("sdram"),
            i_sdram_rst=ResetSignal("sdram"),
            i_rx=rx.i,
            o_tx=tx.o,
            o_lights=lights,
            **ports,
        )
        self._sdram(m, platform, pins)
        # The microcontroller beside the FPGA resets the board when this pin falls.
        esp32 = platform.request("esp32", 0, dir=dict.fromkeys(ESP32_PINS, "-"))
        m.submodules.esp32 = keep = io.Buffer("o", esp32.gpio0)
        m.d.comb += keep.o.eq(1)
        for number in range(LIGHTS):
            led = io.Buffer("o", platform.request("led", number, dir="-"))
            m.submodules[f"led{number}"] = led
            m.d.comb += led.o.eq(lights[number])
        return m

    def _clocks(self, m, platform):
        """Both domains out of one PLL; returns its lock."""
        board = self._board
        if not VCO_MHZ[0] <= board.vco_mhz <= VCO_MHZ[1]:
            raise UserError(f"PLL: {board.vco_mhz:g} MHz is outside {VCO_MHZ[0]}..{VCO_MHZ[1]} MHz")
        m.submodules.clk25 = oscillator = io.Buffer("i", platform.request("clk25", 0, dir="-"))
        lock = Signal()
        sync, sdram = ClockDomain("sync"), ClockDomain("sdram")
        m.domains += [sync, sdram]
        kernel_mhz = board.kernel_hz / 1e6
        sdram_div = whole(board.vco_mhz, board.sdram_mhz, "SDRAM clock")
        kernel_div = whole(board.vco_mhz, kernel_mhz, "kernel clock")
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=str(board.input_mhz),
            a_FREQUENCY_PIN_CLKOP=str(board.sdram_mhz),
            a_FREQUENCY_PIN_CLKOS=str(kernel_mhz),
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            p_OUTDIVIDER_MUXC="DIVC",
            p_OUTDIVIDER_MUXD="DIVD",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=1,
            p_CLKFB_DIV=whole(board.sdram_mhz, board.input_mhz, "feedback"),
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=sdram_div,
            p_CLKOP_CPHASE=sdram_div - 1,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=kernel_div,
            p_CLKOS_CPHASE=kernel_div - 1,
            p_CLKOS_FPHASE=0,
            i_CLKI=oscillator.i,
            i_CLKFB=sdram.clk,
            i_RST=0,
            i_STDBY=0,
            i_PHASESEL0=0,
            i_PHASESEL1=0,
            i_PHASEDIR=1,
            i_PHASESTEP=1,
            i_PHASELOADREG=1,
            i_PLLWAKESYNC=0,
            i_ENCLKOP=0,
            o_CLKOP=sdram.clk,
            o_CLKOS=sync.clk,
            o_LOCK=lock,
        )
        return lock

    def _sdram(self, m, platform, pins):
        """Registers in the pads, out and in, and the clock of the chip."""
        names = ("clk", "clk_en", "cs", "we", "ras", "cas", "ba", "a", "dq", "dqm")
        port = platform.request("sdram", 0, dir=dict.fromkeys(names, "-"))
        m.submodules.sdram_clock = clock = io.DDRBuffer("o", port.clk, o_domain="sdram")
        m.d.comb += [clock.o[0].eq(0), clock.o[1].eq(1)]
        command = pins.command.as_value()
        outputs = {  # levels at the pins
            "clk_en": pins.cke,
            "cs": 0,
            "ras": command[2],
            "cas": command[1],
            "we": command[0],
            "ba": pins.ba,
            "a": pins.a,
            "dqm": 0,
        }
        for name, level in outputs.items():
            pad = io.FFBuffer("o", getattr(port, name), o_domain="sdram")
            m.submodules[f"sdram_{name}"] = pad
            # the resource counts these as active low, and its buffer inverts them
            inverted = name in ("cs", "ras", "cas", "we")
            m.d.comb += pad.o.eq(~level if inverted else level)
        for bit in range(self._board.chip.data_bits):
            pad = io.FFBuffer("io", port.dq[bit], i_domain="sdram", o_domain="sdram")
            m.submodules[f"sdram_dq{bit}"] = pad
            m.d.comb += [pad.o.eq(pins.dq_o[bit]), pad.oe.eq(pins.dq_oe), pins.dq_i[bit].eq(pad.i)]


def platform() -> ULX3S_85F_Platform:
    """The board with its resources and its tool chain."""
    return ULX3S_85F_Platform()
