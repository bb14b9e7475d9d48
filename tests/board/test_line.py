"""The board's end of the serial line: requests, replies, damaged and incomplete frames."""

import zlib

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.board.link import Link
from symlight.hw.board.protocol import CRC, REPLY, REQUEST, SYNC_REQUEST, Hello, LinkStatus, Operation
from symlight.hw.control import CTRL
from symlight.sim.board.board import GAP
from symlight.sim.board.line import SimulatedPort
from tests.benches.board_bench import TIMEOUT, open_card

POWER_UP = 15_000  # kernel cycles until the SDRAM is initialised


@pytest.fixture
def link(simulated):
    simulated.run(POWER_UP)
    return Link(SimulatedPort(simulated), "serial:simulated", timeout=TIMEOUT)


def frame(operation, sequence, length, address, payload=b"", damage=0):
    body = REQUEST.pack(SYNC_REQUEST, operation, sequence, length, address) + payload
    return body + CRC.pack(zlib.crc32(body[1:]) ^ damage)


def reply(simulated, wanted):
    simulated.run(500_000, wanted=wanted)
    return simulated.receive()


def status(simulated, request):
    simulated.send(request)
    got = reply(simulated, REPLY.size + CRC.size)
    _, found, sequence, length = REPLY.unpack(got[: REPLY.size])
    assert CRC.unpack(got[-CRC.size :])[0] == zlib.crc32(got[1 : -CRC.size])
    return LinkStatus(found), sequence, length


def test_the_board_says_what_it_is(link, library):
    hello = link.hello()
    assert hello == Hello(library.build_id, library.engine.clock_mhz * 1000, library.engine.beat_bytes)


def test_memory_keeps_what_is_written(link, simulated):
    """Long writes are several requests, some of them on the way at once."""
    data = np.random.default_rng(1).integers(0, 256, 5000 * 8 // 8, np.uint8)[: 4 * 1024 + 512].tobytes()
    link.write(Operation.WRITE, 0x10000, data)
    assert link.read(Operation.READ, 0x10000, len(data)) == data
    assert simulated.memory[0x10000 : 0x10000 + len(data)].tobytes() == data
    assert link.read(Operation.READ, 0x10000 + 64, 8) == data[64:72]


def test_registers(link):
    words = np.array([7, 1234, 0xDEADBEEF], "<u4").tobytes()
    link.write(Operation.SET, 0x4, b"\0\0\0\0")
    assert link.read(Operation.GET, CTRL, 4) == (4).to_bytes(4, "little")  # idle
    link.write(Operation.SET, 0x10, words[:4])
    assert link.read(Operation.GET, 0x10, 4) == words[:4]
    assert link.read(Operation.GET, 0xFF0, 4) == b"\0\0\0\0"


def test_parts_of_a_beat_keep_the_rest(simulated):
    simulated.run(POWER_UP)
    card = open_card(simulated, short_cut=False)
    card.allocate({"io": 4096})
    card.write("io", 0, np.arange(64, dtype=np.uint8))
    card.write("io", 13, np.full(6, 0xEE, np.uint8))
    expected = np.arange(64, dtype=np.uint8)
    expected[13:19] = 0xEE
    assert card.read("io", 0, 64).tolist() == expected.tolist()
    assert card.read("io", 11, 5).tolist() == expected[11:16].tolist()


@pytest.mark.parametrize(
    ("request_bytes", "found"),
    [
        (frame(Operation.READ, 3, 8, 0, damage=1), LinkStatus.BAD_CRC),
        (frame(Operation.WRITE, 4, 8, 0, b"12345678", damage=0x800), LinkStatus.BAD_CRC),
        (frame(9, 5, 8, 0), LinkStatus.BAD_REQUEST),
        (frame(Operation.READ, 6, 4, 0), LinkStatus.BAD_REQUEST),
        (frame(Operation.READ, 6, 2048, 0), LinkStatus.BAD_REQUEST),
        (frame(Operation.GET, 7, 6, 0x10), LinkStatus.BAD_REQUEST),
        (frame(Operation.HELLO, 8, 8, 0), LinkStatus.BAD_REQUEST),
    ],
)
def test_what_is_not_done(link, simulated, request_bytes, found):
    before = simulated.memory[:64].copy()
    assert status(simulated, request_bytes) == (found, request_bytes[2], 0)
    assert (simulated.memory[:64] == before).all()
    assert link.hello().build_id == simulated.library.build_id


def test_a_lost_byte_ends_in_an_answer_and_a_clean_line(link, simulated):
    whole = frame(Operation.WRITE, 9, 16, 64, bytes(range(16)))
    before = simulated.memory[:128].copy()
    for lost in (3, 15, len(whole) - 1):
        simulated.send(whole[:lost] + whole[lost + 1 :])
        simulated.run(2 * GAP)
        got = simulated.receive()
        # Without a byte of the length, the next one is read as length: the request itself is wrong then.
        assert REPLY.unpack(got[: REPLY.size])[1] in (
            LinkStatus.INCOMPLETE,
            LinkStatus.BAD_CRC,
            LinkStatus.BAD_REQUEST,
        )
        assert link.hello().build_id == simulated.library.build_id
    assert (simulated.memory[:128] == before).all()


def test_memory_is_refused_before_it_is_ready(simulated):
    assert status(simulated, frame(Operation.READ, 1, 8, 0))[0] == LinkStatus.MEMORY


def test_another_bitstream_is_refused(simulated):
    with pytest.raises(UserError, match="the board holds bitstream .*; load the bitstream that is beside"):
        open_card(simulated, build_id=simulated.library.build_id ^ 1)
