"""hw.board.link in Amaranth's simulator, bit by bit on the line, with a plain memory and plain registers."""

import zlib

import pytest
from amaranth.sim import Simulator

from symlight.hw.board.chip import ULX3S_SDRAM
from symlight.hw.board.link import Link
from symlight.hw.board.protocol import CRC, REPLY, REQUEST, SYNC_REQUEST, Hello, LinkStatus, Operation

pytestmark = pytest.mark.timeout(120)

DIVISOR, GAP, BUILD = 4, 400, 0x0123456789ABCDEF_FEDCBA9876543210


class Rig:
    """The link with a line, a memory of beats and a file of registers."""

    def __init__(self, beat_bytes):
        hello = Hello(0, 50_000, beat_bytes)
        self.beat_bytes = beat_bytes
        self.dut = Link(chip=ULX3S_SDRAM, beat_bytes=beat_bytes, divisor=DIVISOR, gap=GAP, hello=hello)
        self.memory, self.registers, self.ready = {}, {}, 1
        self.received = bytearray()

    def run(self, requests, cycles):
        """Send `requests` (bytes), run so many cycles; the bytes that came back."""
        simulator = Simulator(self.dut)
        simulator.add_clock(1e-6)
        self._requests, self._cycles = requests, cycles
        simulator.add_testbench(self._send)
        for process in (self._receive, self._serve_memory, self._serve_registers):
            simulator.add_testbench(process, background=True)
        simulator.run()
        return bytes(self.received)

    async def _send(self, ctx):
        ctx.set(self.dut.rx, 1)
        ctx.set(self.dut.build_id, BUILD)
        ctx.set(self.dut.memory_ready, self.ready)
        await ctx.tick().repeat(10)
        for byte in self._requests:
            for bit in (0, *(byte >> i & 1 for i in range(8)), 1):
                ctx.set(self.dut.rx, bit)
                await ctx.tick().repeat(DIVISOR)
        await ctx.tick().repeat(self._cycles)

    async def _receive(self, ctx):
        while True:
            while ctx.get(self.dut.tx):
                await ctx.tick()
            await ctx.tick().repeat(DIVISOR // 2)
            byte = 0
            for i in range(8):
                await ctx.tick().repeat(DIVISOR)
                byte |= ctx.get(self.dut.tx) << i
            self.received.append(byte)
            await ctx.tick().repeat(DIVISOR)

    async def _serve_memory(self, ctx):
        port, beats = self.dut.memory, self.dut.beats
        while True:
            ctx.set(port.ready, 1)
            while not ctx.get(port.valid):
                await ctx.tick()
            request = ctx.get(port.payload)
            await ctx.tick()
            ctx.set(port.ready, 0)
            if request.write:
                self.memory[request.address] = request.data
                await ctx.tick().repeat(3)
                continue
            await ctx.tick().repeat(7)
            ctx.set(beats.payload, self.memory.get(request.address, 0))
            ctx.set(beats.valid, 1)
            while not ctx.get(beats.ready):
                await ctx.tick()
            await ctx.tick()
            ctx.set(beats.valid, 0)

    async def _serve_registers(self, ctx):
        bus = self.dut.control
        while True:
            for ready in (bus.awready, bus.wready, bus.arready):
                ctx.set(ready, 1)
            while not ctx.get(bus.awvalid | bus.arvalid):
                await ctx.tick()
            write = ctx.get(bus.awvalid)
            address, data, source = ctx.get(bus.awaddr), ctx.get(bus.wdata), ctx.get(bus.araddr)
            await ctx.tick()
            for ready in (bus.awready, bus.wready, bus.arready):
                ctx.set(ready, 0)
            await ctx.tick().repeat(2)
            if write:
                self.registers[address] = data
                await self._answer(ctx, bus.bvalid, bus.bready)
            else:
                ctx.set(bus.rdata, self.registers.get(source, 0))
                await self._answer(ctx, bus.rvalid, bus.rready)

    async def _answer(self, ctx, valid, ready):
        ctx.set(valid, 1)
        while not ctx.get(ready):
            await ctx.tick()
        await ctx.tick()
        ctx.set(valid, 0)


def request(operation, sequence, address, length, payload=b"", damage=0):
    body = REQUEST.pack(SYNC_REQUEST, operation, sequence, length, address) + payload
    return body + CRC.pack(zlib.crc32(body[1:]) ^ damage)


def replies(raw):
    """Frames of a stream of replies; every one is whole."""
    found = []
    while raw:
        sync, status, sequence, length = REPLY.unpack(raw[: REPLY.size])
        body, raw = raw[: REPLY.size + length], raw[REPLY.size + length :]
        assert sync == 0xA5
        assert CRC.unpack(raw[: CRC.size])[0] == zlib.crc32(body[1:])
        raw = raw[CRC.size :]
        found.append((LinkStatus(status), sequence, body[REPLY.size :]))
    return found


@pytest.mark.parametrize("beat_bytes", [8, 16])
def test_every_operation(beat_bytes):
    rig = Rig(beat_bytes)
    data = bytes(range(7, 7 + 2 * beat_bytes))
    words = b"\x01\x02\x03\x04\x05\x06\x07\x08"
    raw = rig.run(
        request(Operation.HELLO, 1, 0, Hello.BYTES)
        + request(Operation.WRITE, 2, 5 * beat_bytes, len(data), data)
        + request(Operation.READ, 3, 5 * beat_bytes, len(data))
        + request(Operation.SET, 4, 0x10, 8, words)
        + request(Operation.GET, 5, 0x14, 4),
        6000,
    )
    assert replies(raw) == [
        (LinkStatus.OK, 1, Hello(BUILD, 50_000, beat_bytes).pack()),
        (LinkStatus.OK, 2, b""),
        (LinkStatus.OK, 3, data),
        (LinkStatus.OK, 4, b""),
        (LinkStatus.OK, 5, words[4:]),
    ]
    assert rig.memory == {
        5 + i: int.from_bytes(data[i * beat_bytes : (i + 1) * beat_bytes], "little") for i in range(2)
    }
    assert rig.registers == {0x10: 0x04030201, 0x14: 0x08070605}


def test_what_is_damaged_is_not_done():
    rig = Rig(8)
    raw = rig.run(
        request(Operation.WRITE, 1, 0, 8, b"12345678", damage=1)
        + request(Operation.WRITE, 2, 4, 8, b"12345678")
        + request(9, 3, 0, 8)
        + request(Operation.GET, 4, 0, 2),
        2000,
    )
    assert replies(raw) == [
        (LinkStatus.BAD_CRC, 1, b""),
        (LinkStatus.BAD_REQUEST, 2, b""),
        (LinkStatus.BAD_REQUEST, 3, b""),
        (LinkStatus.BAD_REQUEST, 4, b""),
    ]
    assert rig.memory == {}


def test_half_a_request_is_given_up():
    rig = Rig(8)
    raw = rig.run(request(Operation.WRITE, 6, 0, 8, b"12345678")[:-1], 3 * GAP)
    assert replies(raw) == [(LinkStatus.INCOMPLETE, 6, b"")]
    assert rig.memory == {}


def test_no_memory_before_it_is_ready():
    rig = Rig(8)
    rig.ready = 0
    assert replies(rig.run(request(Operation.READ, 1, 0, 8), 2000)) == [(LinkStatus.MEMORY, 1, b"")]
