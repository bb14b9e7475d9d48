"""The board's side of the serial link: requests are done one by one, each is answered (protocol.py).

serial in ─► receiver ─► queue ─► request ─┐        ┌─► memory (beats)
                                           ├─ units ┼─► control registers (words)
serial out ◄─ transmitter ◄─── reply ◄─────┘        └── what the board is
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect
from amaranth.utils import exact_log2

from ..axi import AxiLite
from ..lib.queue import Queue
from .chip import SdramChip
from .frames import LENGTH_BITS, ReplySender, RequestReceiver
from .protocol import MAX_PAYLOAD, SENDS, WORD_BYTES, Hello, LinkStatus, Operation
from .sdram_ports import request_layout
from .uart import UartReceiver, UartTransmitter

WAITING = 256  # bytes that come while a request is done, or its reply is on the line


class Link(wiring.Component):
    """Serial access to memory and control registers.

    A request is done unit by unit: a beat of memory, or a word of the registers. Units of a READ are asked
    for one by one, as the line takes them. A request that is not OK is answered with its status and an empty
    payload.

    Parameters
    ----------
    chip : SdramChip
    beat_bytes : int
    divisor : int
        Clock cycles of a bit on the line.
    gap : int
        Cycles of silence after which half a request is given up.
    hello : Hello
        Its `build_id` is taken from the port.

    Members
    -------
    rx, tx : In, Out
        The line.
    build_id : In
    memory_ready : In
        The SDRAM is initialised.
    memory : Out(stream of request_layout), beats : In(stream)
    control : Out(AxiLite)
    active : Out
        A request is being done: for a light.
    """

    def __init__(self, *, chip: SdramChip, beat_bytes: int, divisor: int, gap: int, hello: Hello):
        self._divisor, self._gap, self._hello = divisor, gap, hello
        self._beat_bytes = beat_bytes
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "build_id": In(128),
                "memory_ready": In(1),
                "memory": Out(stream.Signature(request_layout(chip, beat_bytes))),
                "beats": In(stream.Signature(8 * beat_bytes)),
                "control": Out(AxiLite()),
                "active": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(divisor=self._divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(divisor=self._divisor)
        m.submodules.queue = queue = Queue(8, depth=WAITING)
        m.submodules.request = self._request = request = RequestReceiver(gap=self._gap)
        m.submodules.reply = self._reply = reply = ReplySender()
        m.d.comb += [receiver.line.eq(self.rx), self.tx.eq(transmitter.line)]
        connect(m, receiver.o, queue.i)
        connect(m, queue.o, request.bytes)
        connect(m, reply.bytes, transmitter.i)
        self._unit = Signal(8 * self._beat_bytes)  # a beat, or a word at its low end
        self._address, self._left = Signal(32), Signal(LENGTH_BITS)
        self._byte = Signal(range(self._beat_bytes + 1))  # of the unit: done so far
        self._steps(m)
        return m

    def _kinds(self, m):
        """What the request's operation is: sends, of registers, of the board itself, units' bytes."""
        operation = self._request.header.operation
        sends, registers, hello = Signal(), Signal(), Signal()
        size = Signal(range(self._beat_bytes + 1))
        m.d.comb += [
            sends.eq(Cat(operation == o for o in SENDS).any()),
            registers.eq((operation == Operation.SET) | (operation == Operation.GET)),
            hello.eq(operation == Operation.HELLO),
            size.eq(Mux(registers, WORD_BYTES, self._beat_bytes)),
        ]
        return sends, registers, hello, size

    def _status(self, m, registers, hello):
        """Status of the request: what the receiver says, then what is wrong with the request itself."""
        request, status = self._request, Signal(LinkStatus)
        header = request.header
        beat = (header.length | header.address[:16])[: exact_log2(self._beat_bytes)] != 0
        word = (header.length | header.address[:16])[: exact_log2(WORD_BYTES)] != 0
        known = header.operation <= max(Operation)
        wrong = ~known | (header.length > MAX_PAYLOAD) | Mux(registers, word, beat)
        wrong |= hello & (header.length != Hello.BYTES)
        with m.If(request.status != LinkStatus.OK):
            m.d.comb += status.eq(request.status)
        with m.Elif(wrong):
            m.d.comb += status.eq(LinkStatus.BAD_REQUEST)
        with m.Elif(~registers & ~hello & ~self.memory_ready):
            m.d.comb += status.eq(LinkStatus.MEMORY)
        return status

    def _steps(self, m):
        request, reply, unit = self._request, self._reply, self._unit
        sends, registers, hello, size = self._kinds(m)
        status = self._status(m, registers, hello)
        begun = Signal()
        m.d.comb += [
            self.active.eq(request.valid),
            reply.status.eq(status),
            reply.sequence.eq(request.header.sequence),
            reply.length.eq(Mux((status == LinkStatus.OK) & ~sends, request.header.length, 0)),
            reply.payload.p.eq(unit),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [
                    self._address.eq(request.header.address),
                    self._left.eq(request.header.length),
                    self._byte.eq(0),
                    request.address.eq(0),
                    begun.eq(0),
                ]
                with m.If(request.valid & reply.idle):
                    with m.If(status != LinkStatus.OK):
                        m.next = "END"
                    with m.Elif(sends):
                        m.next = "NEXT"
                    with m.Else():
                        m.d.comb += reply.start.eq(1)
                        m.d.sync += begun.eq(1)
                        m.next = "NEXT"
            with m.State("NEXT"):
                with m.If(self._left == 0):
                    m.next = "END"
                with m.Elif(sends):
                    m.next = "GATHER"
                with m.Elif(hello):
                    m.next = "TELL"
                with m.Elif(registers):
                    m.next = "GET"
                with m.Else():
                    m.next = "READ"
            self._gather(m, registers, size)
            self._memory(m)
            self._registers(m)
            with m.State("TELL"):
                m.d.sync += unit.eq(self._told())
                m.next = "SHIFT"
            with m.State("SHIFT"):  # the unit's bytes to the reply
                m.d.comb += reply.payload.valid.eq(1)
                with m.If(reply.payload.ready):
                    m.d.sync += [unit.eq(unit >> 8), self._byte.eq(self._byte + 1)]
                    with m.If(self._byte == size - 1):
                        m.next = "STEP"
            with m.State("STEP"):
                m.d.sync += [
                    self._byte.eq(0),
                    self._address.eq(self._address + size),
                    self._left.eq(self._left - size),
                ]
                m.next = "NEXT"
            with m.State("END"):
                with m.If(reply.idle):
                    m.d.comb += [reply.start.eq(~begun), request.done.eq(1)]
                    m.next = "GONE"
            with m.State("GONE"):  # until `request.valid` has fallen
                m.next = "IDLE"

    def _gather(self, m, registers, size):
        """A unit out of the payload: a byte in two cycles."""
        request, unit = self._request, self._unit
        shifted = Mux(
            registers,
            Cat(unit[8 : 8 * WORD_BYTES], request.byte),
            Cat(unit[8:], request.byte),
        )
        with m.State("GATHER"):  # the payload's memory answers a cycle later
            m.next = "BYTE"
        with m.State("BYTE"):
            m.d.sync += [
                unit.eq(shifted),
                request.address.eq(request.address + 1),
                self._byte.eq(self._byte + 1),
            ]
            with m.If(self._byte != size - 1):
                m.next = "GATHER"
            with m.Elif(registers):
                m.next = "SET"
            with m.Else():
                m.next = "WRITE"

    def _memory(self, m):
        memory, writes = self.memory, Signal()
        m.d.comb += [
            memory.p.write.eq(writes),
            memory.p.address.eq(self._address >> exact_log2(self._beat_bytes)),
            memory.p.beats.eq(1),
            memory.p.data.eq(self._unit),
        ]
        with m.State("WRITE"):
            m.d.comb += [memory.valid.eq(1), writes.eq(1)]
            with m.If(memory.ready):
                m.next = "STEP"
        with m.State("READ"):
            m.d.comb += memory.valid.eq(1)
            with m.If(memory.ready):
                m.next = "BEAT"
        with m.State("BEAT"):
            m.d.comb += self.beats.ready.eq(1)
            with m.If(self.beats.valid):
                m.d.sync += self._unit.eq(self.beats.p)
                m.next = "SHIFT"

    def _registers(self, m):
        bus = self.control
        m.d.comb += [
            bus.awaddr.eq(self._address),
            bus.araddr.eq(self._address),
            bus.wdata.eq(self._unit),
            bus.wstrb.eq((1 << WORD_BYTES) - 1),
        ]
        sent = Signal(2)  # address and data of a write
        with m.State("SET"):
            m.d.comb += [bus.awvalid.eq(~sent[0]), bus.wvalid.eq(~sent[1]), bus.bready.eq(1)]
            with m.If(bus.awvalid & bus.awready):
                m.d.sync += sent[0].eq(1)
            with m.If(bus.wvalid & bus.wready):
                m.d.sync += sent[1].eq(1)
            with m.If(bus.bvalid):
                m.d.sync += sent.eq(0)
                m.next = "STEP"
        with m.State("GET"):
            m.d.comb += bus.arvalid.eq(1)
            with m.If(bus.arready):
                m.next = "WORD"
        with m.State("WORD"):
            m.d.comb += bus.rready.eq(1)
            with m.If(bus.rvalid):
                m.d.sync += self._unit.eq(bus.rdata)
                m.next = "SHIFT"

    def _told(self) -> Value:
        """The unit of HELLO's reply at `_address`: the bytes that `Hello.pack` would give for the port's
        build id."""
        blank = Hello(0, self._hello.clock_khz, self._hello.beat_bytes).pack()
        first = len(Hello.MAGIC)
        low = int.from_bytes(blank[:first], "little")
        high = int.from_bytes(blank[first + 16 :], "little")
        content = Cat(
            Const(low, 8 * first),
            self.build_id,
            Const(high, 8 * (Hello.BYTES - first - 16)),
        )
        place = (Hello.BYTES // self._beat_bytes - 1) & (self._address >> exact_log2(self._beat_bytes))
        return content.word_select(place, 8 * self._beat_bytes)
