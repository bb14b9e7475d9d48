"""Requests off the serial line and replies onto it (protocol.py): framing, checksum, time-out."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .protocol import CRC, MAX_PAYLOAD, REPLY, REQUEST, SENDS, SYNC_REPLY, SYNC_REQUEST, LinkStatus

LENGTH_BITS = exact_log2(MAX_PAYLOAD) + 1
# a request behind its first byte
HEADER = data.StructLayout({"operation": 8, "sequence": 8, "length": 16, "address": 32})


class RequestReceiver(wiring.Component):
    """One request at a time: header and payload are kept until `done`.

    A request that is damaged, too long or incomplete is reported with its `status` and must be answered
    without being done. Between requests everything but SYNC_REQUEST is ignored.
    Back-pressure: `bytes.ready` is low from the last byte of a request until `done`.

    Parameters
    ----------
    gap : int
        Cycles without a byte after which an unfinished request is given up.

    Members
    -------
    bytes : In(stream of bytes)
    valid, status, header : Out
        A request is there, until `done`.
    done : In
    address, byte : In, Out
        Read port of the payload: `byte` is the one that `address` named a cycle before.
    """

    def __init__(self, *, gap: int):
        self._gap = gap
        super().__init__(
            {
                "bytes": In(stream.Signature(8)),
                "valid": Out(1),
                "status": Out(LinkStatus),
                "header": Out(HEADER),
                "done": In(1),
                "address": In(range(MAX_PAYLOAD)),
                "byte": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC().create()
        m.submodules.payload = payload = Memory(shape=8, depth=MAX_PAYLOAD, init=[])
        write, read = payload.write_port(), payload.read_port()
        taken, left, silence = Signal(), Signal(LENGTH_BITS), Signal(range(self._gap + 1))
        header = self.header.as_value()
        sends = Cat(self.header.operation == operation for operation in SENDS).any()
        long = self.header.length > MAX_PAYLOAD
        m.d.comb += [
            self.bytes.ready.eq(~self.valid),
            taken.eq(self.bytes.valid & self.bytes.ready),
            crc.data.eq(self.bytes.p),
            read.addr.eq(self.address),
            self.byte.eq(read.data),
            write.data.eq(self.bytes.p),
        ]
        with m.If(self.done):
            m.d.sync += self.valid.eq(0)

        def report(status):
            m.d.sync += [self.valid.eq(1), self.status.eq(status)]
            m.next = "SYNC"

        expired = Signal()  # an unfinished request is given up
        m.d.comb += expired.eq(silence == self._gap)
        with m.FSM() as fsm:
            with m.State("SYNC"):
                m.d.comb += crc.start.eq(1)
                m.d.sync += left.eq(REQUEST.size - 1)
                with m.If(taken & (self.bytes.p == SYNC_REQUEST)):
                    m.next = "HEADER"
            with m.State("HEADER"):
                with m.If(taken):
                    m.d.comb += crc.valid.eq(1)
                    m.d.sync += [header.eq(Cat(header[8:], self.bytes.p)), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.next = "LENGTH"
                with m.Elif(expired):
                    report(LinkStatus.INCOMPLETE)
            with m.State("LENGTH"):
                m.d.comb += self.bytes.ready.eq(0)
                m.d.sync += [left.eq(self.header.length), write.addr.eq(0)]
                with m.If(sends & long):
                    report(LinkStatus.BAD_REQUEST)
                with m.Elif(sends & (self.header.length != 0)):
                    m.next = "PAYLOAD"
                with m.Else():
                    m.d.sync += left.eq(CRC.size)
                    m.next = "CRC"
            with m.State("PAYLOAD"):
                with m.If(taken):
                    m.d.comb += [crc.valid.eq(1), write.en.eq(1)]
                    m.d.sync += [write.addr.eq(write.addr + 1), left.eq(left - 1)]
                    with m.If(left == 1):
                        m.d.sync += left.eq(CRC.size)
                        m.next = "CRC"
                with m.Elif(expired):
                    report(LinkStatus.INCOMPLETE)
            with m.State("CRC"):
                with m.If(taken):
                    m.d.comb += crc.valid.eq(1)
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.next = "CHECK"
                with m.Elif(expired):
                    report(LinkStatus.INCOMPLETE)
            with m.State("CHECK"):
                m.d.comb += self.bytes.ready.eq(0)
                report(Mux(crc.match_detected, LinkStatus.OK, LinkStatus.BAD_CRC))
        with m.If(taken | fsm.ongoing("SYNC") | expired):
            m.d.sync += silence.eq(0)
        with m.Else():
            m.d.sync += silence.eq(silence + 1)
        return m


class ReplySender(wiring.Component):
    """Frames a reply: header, the payload as it comes, checksum.

    Throughput: a byte a cycle, but for the checksum's first. Back-pressure: both streams.

    Members
    -------
    start, status, sequence, length : In
        Begins a reply; only while `idle`.
    payload : In(stream of bytes)
        `length` of them.
    bytes : Out(stream of bytes)
    idle : Out
    """

    def __init__(self):
        super().__init__(
            {
                "start": In(1),
                "status": In(LinkStatus),
                "sequence": In(8),
                "length": In(LENGTH_BITS),
                "payload": In(stream.Signature(8)),
                "bytes": Out(stream.Signature(8)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC().create()
        rest, left, count = Signal(8 * REPLY.size), Signal(LENGTH_BITS), Signal(range(REPLY.size + 1))
        sent, status, length = Signal(), Signal(8), Signal(16)
        m.d.comb += [
            sent.eq(self.bytes.valid & self.bytes.ready),
            crc.data.eq(self.bytes.p),
            status.eq(self.status),
            length.eq(self.length),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.idle.eq(1), crc.start.eq(1)]
                with m.If(self.start):
                    m.d.sync += [
                        rest.eq(Cat(Const(SYNC_REPLY, 8), status, self.sequence, length)),
                        left.eq(self.length),
                        count.eq(REPLY.size),
                    ]
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [self.bytes.valid.eq(1), self.bytes.p.eq(rest)]
                with m.If(sent):
                    m.d.comb += crc.valid.eq(count != REPLY.size)  # not the first byte
                    m.d.sync += [rest.eq(rest >> 8), count.eq(count - 1)]
                    with m.If(count == 1):
                        m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                m.d.comb += [
                    self.bytes.valid.eq(self.payload.valid & (left != 0)),
                    self.bytes.p.eq(self.payload.p),
                    self.payload.ready.eq(self.bytes.ready & (left != 0)),
                ]
                with m.If(sent):
                    m.d.comb += crc.valid.eq(1)
                    m.d.sync += left.eq(left - 1)
                with m.If(left == 0):
                    m.d.sync += [rest.eq(crc.crc), count.eq(CRC.size)]
                    m.next = "CRC"
            with m.State("CRC"):
                m.d.comb += [self.bytes.valid.eq(1), self.bytes.p.eq(rest)]
                with m.If(sent):
                    m.d.sync += [rest.eq(rest >> 8), count.eq(count - 1)]
                    with m.If(count == 1):
                        m.next = "IDLE"
        return m
