"""Everything of the board's design but what the FPGA family has of its own: PLL and pads.

serial line ─► link ─┬─ registers ──► kernel ─┐ AXI
                     └─ beats ────────────────┴─► memory port ─► queue ─► SDRAM controller ─► pins
                                        (sync)                   (sync │ sdram)
"""

from amaranth.hdl import Assert, Cat, DomainRenamer, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out, connect

from ..config import Engine
from ..kernel.parts import IDENTITY_MODULE
from ..top import Kernel
from .chip import SdramChip
from .link import Link
from .memory_port import READ_BEATS, MemoryPort
from .protocol import Hello
from .sdram import SdramController
from .sdram_ports import pins_signature

REQUESTS = 16  # that wait for the controller
LIGHTS = 8


class BoardCore(wiring.Component):
    """Kernel, memory port, SDRAM controller and link, in domains `sync` (kernel) and `sdram`.

    Parameters
    ----------
    engine : Engine
        Of one channel.
    chip : SdramChip
    sdram_mhz : float
    divisor : int
        `sync` cycles of a bit on the serial line.
    gap : int
        `sync` cycles of silence after which half a request is given up.

    Members
    -------
    rx, tx : In, Out
    lights : Out
        0 alive (blinks), 1 memory ready, 2 a request of the host, 3 the kernel reads, 4 it writes; the others
        are dark.
    sdram : Out(pins_signature)
        In domain `sdram`, without the registers of the pads.
    """

    def __init__(self, *, engine: Engine, chip: SdramChip, sdram_mhz: float, divisor: int, gap: int):
        self._engine, self._chip, self._mhz = engine, chip, sdram_mhz
        self._divisor, self._gap = divisor, gap
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "lights": Out(LIGHTS),
                "sdram": Out(pins_signature(chip)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        engine, chip = self._engine, self._chip
        beat_bytes = engine.beat_bytes
        identity = Signal(128)
        m.submodules.identity = Instance(IDENTITY_MODULE, o_build_id=identity)
        m.submodules.kernel = kernel = Kernel(engine, inline_channels=True)
        m.submodules.port = port = MemoryPort(chip=chip, beat_bytes=beat_bytes)
        m.submodules.link = link = Link(
            chip=chip,
            beat_bytes=beat_bytes,
            divisor=self._divisor,
            gap=self._gap,
            hello=Hello(0, engine.clock_mhz * 1000, beat_bytes),
        )
        controller = SdramController(chip=chip, mhz=self._mhz, beat_bytes=beat_bytes)
        m.submodules.controller = DomainRenamer("sdram")(controller)
        connect(m, kernel.hbm[0], port.kernel)
        connect(m, link.memory, port.host)
        connect(m, port.host_beats, link.beats)
        connect(m, link.control, kernel.control)
        connect(m, controller.pins, wiring.flipped(self.sdram))
        m.d.comb += [link.rx.eq(self.rx), self.tx.eq(link.tx), link.build_id.eq(identity)]
        m.submodules.memory_ready = FFSynchronizer(controller.ready, link.memory_ready)
        self._queues(m, port, controller)
        alive = Signal(25)
        m.d.sync += alive.eq(alive + 1)
        bus = kernel.hbm[0]
        lights = Cat(alive[-1], link.memory_ready, link.active, bus.read.arvalid, bus.write.awvalid)
        m.d.sync += self.lights.eq(lights)
        return m

    def _queues(self, m, port, controller):
        """Requests and beats over the border of the domains."""
        width = len(port.requests.p.as_value())
        m.submodules.requests = requests = AsyncFIFO(
            width=width, depth=REQUESTS, w_domain="sync", r_domain="sdram"
        )
        m.submodules.beats = beats = AsyncFIFO(
            width=len(port.beats.p), depth=READ_BEATS, w_domain="sdram", r_domain="sync"
        )
        m.d.comb += [
            requests.w_data.eq(port.requests.p),
            requests.w_en.eq(port.requests.valid),
            port.requests.ready.eq(requests.w_rdy),
            controller.requests.p.as_value().eq(requests.r_data),
            controller.requests.valid.eq(requests.r_rdy),
            requests.r_en.eq(controller.requests.ready),
            # room was reserved by the port
            beats.w_data.eq(controller.read.data),
            beats.w_en.eq(controller.read.valid),
            port.beats.p.eq(beats.r_data),
            port.beats.valid.eq(beats.r_rdy),
            beats.r_en.eq(port.beats.ready),
        ]
        m.submodules.checked = checked = DomainRenamer("sdram")(_Checked())
        m.d.comb += [checked.some.eq(beats.w_en), checked.room.eq(beats.w_rdy)]


class _Checked(wiring.Component):
    """Asserts that a beat finds room."""

    some: In(1)
    room: In(1)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += Assert(~self.some | self.room, "a beat that was promised room has none")
        return m
