"""The kernel's control registers: an AXI4-Lite slave with XRT's `ap_ctrl_hs` protocol, and the arguments of a
run.

    0x00 CTRL   bit 0 ap_start (set by writing 1, reads 1 until the run is done), bit 1 ap_done and bit 3
                ap_ready (both set by the end of a run; cleared by reading CTRL, and by the next start),
                bit 2 ap_idle
    0x04 GIE    bit 0: interrupts enabled
    0x08 IER    bit 0: interrupt at ap_done, bit 1: at ap_ready
    0x0C ISR    the same bits: latched at every end of a run whatever GIE and IER say; writing 1 toggles
    0x10 ..     arguments (interface.arguments)
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .axi import RESP_OKAY, AxiLite
from .config import Engine
from .interface import arguments

CTRL, GIE, IER, ISR = 0x00, 0x04, 0x08, 0x0C  # byte offsets


def argument_layout(engine: Engine) -> data.StructLayout:
    """The latched arguments of a run: 32-bit scalars and 64-bit pointers, by name."""
    return data.StructLayout({a.name: 8 * a.size for a in arguments(engine.channels)})


class Ctrl(data.Struct):
    """Register CTRL."""

    start: 1
    done: 1
    idle: 1
    ready: 1


class _RegisterPort(wiring.Component):
    """AXI4-Lite handshakes: one held address and data word each way, turned into strobes on a register file.

    Members
    -------
    bus : In(AxiLite())
    write, write_word, write_data, write_strobe : Out
        In a cycle with `write`: register `write_word` takes those bytes of `write_data` that `write_strobe`
        names.
    read, read_word : Out
        In a cycle with `read`: the register file captures register `read_word` into `read_data`, which holds
        until the next.
    read_data : In
    """

    bus: In(AxiLite())
    write: Out(1)
    write_word: Out(10)
    write_data: Out(32)
    write_strobe: Out(4)
    read: Out(1)
    read_word: Out(10)
    read_data: In(32)

    def elaborate(self, platform):
        m = Module()
        bus = self.bus
        # the holding registers are free
        free_address, free_data, free_read = Signal(init=1), Signal(init=1), Signal(init=1)
        m.d.comb += [
            bus.awready.eq(free_address),
            bus.wready.eq(free_data),
            bus.arready.eq(free_read),
            bus.bresp.eq(RESP_OKAY),
            bus.rresp.eq(RESP_OKAY),
            bus.rdata.eq(self.read_data),
            self.write.eq(~free_address & ~free_data & (~bus.bvalid | bus.bready)),
            self.read.eq(~free_read & (~bus.rvalid | bus.rready)),
        ]
        with m.If(bus.awvalid & free_address):
            m.d.sync += [free_address.eq(0), self.write_word.eq(bus.awaddr[2:])]
        with m.If(bus.wvalid & free_data):
            m.d.sync += [free_data.eq(0), self.write_data.eq(bus.wdata), self.write_strobe.eq(bus.wstrb)]
        with m.If(self.write):
            m.d.sync += [free_address.eq(1), free_data.eq(1), bus.bvalid.eq(1)]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.arvalid & free_read):
            m.d.sync += [free_read.eq(0), self.read_word.eq(bus.araddr[2:])]
        with m.If(self.read):
            m.d.sync += [free_read.eq(1), bus.rvalid.eq(1)]
        with m.Elif(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        return m


class Control(wiring.Component):
    """Control registers. The host writes arguments, then ap_start; the kernel answers with one `done` pulse a
    run.

    Arguments are latched at ap_start: XRT rewrites every word from 0x10 on at each start, so a write there
    has no side effect.
    Address and data of a write come in any order. Unmapped offsets read as 0 and ignore writes; every
    response is OKAY. ap_start is ignored while a run is on, and `done` while none is.

    Throughput: one write and one read each two cycles. Back-pressure: one more address and data word are held
    while a response waits. All outputs come from registers.

    Parameters
    ----------
    engine : Engine
        Only `channels` matters: the number of pointers.

    Attributes
    ----------
    START_LATENCY : int
        Cycles from the later of the AW and W transfers of a write of CTRL to `start`, and to `bvalid`.
    READ_LATENCY : int
        Cycles from the AR transfer to `rvalid`.
    INTERRUPT_LATENCY : int
        Cycles from `done` to `interrupt`.

    Members
    -------
    bus : In(AxiLite())
    start : Out
        Pulse: a run starts.
    args : Out(argument_layout(engine))
        Arguments of the run, the new ones from the cycle of `start` on.
    done : In
        Pulse: the run has ended, and every write of it has been answered.
    idle : Out
        No run is on.
    interrupt : Out
        Level: GIE and any bit set in both ISR and IER.
    """

    START_LATENCY = 2
    READ_LATENCY = 2
    INTERRUPT_LATENCY = 2

    def __init__(self, *, engine: Engine):
        self._arguments = arguments(engine.channels)
        self._layout = argument_layout(engine)
        super().__init__(
            {
                "bus": In(AxiLite()),
                "start": Out(1),
                "args": Out(self._layout),
                "done": In(1),
                "idle": Out(1, init=1),
                "interrupt": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.port = port = _RegisterPort()
        wiring.connect(m, wiring.flipped(self.bus), port.bus)
        written = Signal(self._layout)  # arguments as the host has written them; `args` are the run's
        words = self._argument_words(written)
        self._write_arguments(m, port, words)
        ctrl = self._run(m, port, written)
        words |= self._interrupts(m, port) | {CTRL // 4: ctrl.as_value()}
        with m.If(port.read):
            with m.Switch(port.read_word):
                for offset, word in words.items():
                    with m.Case(offset):
                        m.d.sync += port.read_data.eq(word)
                with m.Default():
                    m.d.sync += port.read_data.eq(0)
        return m

    def _argument_words(self, view) -> dict:
        """32-bit words of the arguments in `view`, by word offset."""
        return {
            argument.offset // 4 + k: view[argument.name].word_select(k, 32)
            for argument in self._arguments
            for k in range(argument.size // 4)
        }

    def _write_arguments(self, m, port, words: dict):
        with m.If(port.write):
            with m.Switch(port.write_word):
                for offset, word in words.items():
                    with m.Case(offset):
                        for byte in range(4):
                            with m.If(port.write_strobe[byte]):
                                m.d.sync += word.word_select(byte, 8).eq(port.write_data.word_select(byte, 8))

    def _run(self, m, port, written):
        """ap_start, ap_done, ap_idle, ap_ready; returns register CTRL as it is read."""
        ctrl = Signal(Ctrl)
        finished, begin = Signal(), Signal()
        m.d.comb += [
            ctrl.start.eq(~self.idle),
            ctrl.done.eq(finished),
            ctrl.idle.eq(self.idle),
            ctrl.ready.eq(finished),
            begin.eq(
                port.write
                & (port.write_word == CTRL // 4)
                & port.write_strobe[0]
                & Ctrl(port.write_data[:4]).start
                & (self.idle | self.done)
            ),
        ]
        # A later line wins: an end that meets a read of CTRL stays to be seen by the next read.
        with m.If(port.read & (port.read_word == CTRL // 4)):
            m.d.sync += finished.eq(0)
        with m.If(self.done & ~self.idle):
            m.d.sync += [finished.eq(1), self.idle.eq(1)]
        m.d.sync += self.start.eq(begin)
        with m.If(begin):  # an end that nobody has read must not pass for the end of this run
            m.d.sync += [finished.eq(0), self.idle.eq(0), self.args.eq(written)]
        return ctrl

    def _interrupts(self, m, port) -> dict:
        """GIE, IER and ISR; returns them by word offset."""
        enable, mask, status, toggle = Signal(), Signal(2), Signal(2), Signal(2)
        with m.If(port.write & port.write_strobe[0]):
            with m.Switch(port.write_word):
                with m.Case(GIE // 4):
                    m.d.sync += enable.eq(port.write_data[0])
                with m.Case(IER // 4):
                    m.d.sync += mask.eq(port.write_data[:2])
                with m.Case(ISR // 4):
                    m.d.comb += toggle.eq(port.write_data[:2])
        # Latched whatever is enabled: XRT may enable interrupts after the start, even after the end of a run.
        m.d.sync += [
            status.eq((status ^ toggle) | (self.done & ~self.idle).replicate(2)),
            self.interrupt.eq(enable & (status & mask).any()),
        ]
        return {GIE // 4: enable, IER // 4: mask, ISR // 4: status}
