"""host.device.board.link and card: what goes wrong on a line is one sentence, and nothing wrong passes."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from symlight.base.errors import DeviceFault, UserError
from symlight.host.device.board.card import BoardCard, open_port
from symlight.host.device.board.link import Link
from symlight.host.device.board.opening import board_kernel, open_board
from symlight.host.device.mailbox import BYTES as MAILBOX_BYTES
from symlight.host.device.mailbox import Mailbox
from symlight.hw.board.protocol import Hello, LinkStatus, Operation
from symlight.hw.interface import MAILBOX, MAILBOX_MAGIC, ErrorCode, arguments

pytestmark = pytest.mark.timeout(60)

BUILD = 0x1234


class FakeBoard:
    """A port with a board behind it, from the page on the protocol. `harm` changes its replies, `deaf`
    drops requests, `pulled` fails like an unplugged device."""

    def __init__(self, build_id=BUILD):
        self.memory, self.registers = bytearray(1 << 16), bytearray(4096)
        self.hello = Hello(build_id, 50_000, 8).pack()
        self.line, self.sent, self.most = b"", [], 0
        self.harm, self.deaf, self.pulled, self.status = lambda reply: reply, False, False, 0
        self.answers = []

    def write(self, data):
        if self.pulled:
            raise OSError(5, "Input/output error")
        sync, operation, sequence, length, address = struct.unpack("<BBBHI", data[:9])
        payload, (crc,) = data[9:-4], struct.unpack("<I", data[-4:])
        assert sync == 0x5A and crc == zlib.crc32(data[1:-4])
        self.sent.append((operation, address, len(payload) or length))
        store = self.registers if operation >= 3 else self.memory
        answer = b""
        if operation == 0:
            answer = self.hello
        elif operation in (1, 3):
            assert len(payload) == length <= 1024
            store[address : address + length] = payload
        else:
            answer = bytes(store[address : address + length])
        if operation == 4 and address == 0:
            answer = (4).to_bytes(4, "little")  # idle
        if not self.deaf:
            body = struct.pack("<BBH", self.status, sequence, len(answer)) + answer
            self.answers.append(self.harm(b"\xa5" + body + struct.pack("<I", zlib.crc32(body))))
        self.most = max(self.most, len(self.answers))

    def read(self, size):
        if self.pulled:
            raise OSError(5, "Input/output error")
        if not self.line and self.answers:
            self.line = self.answers.pop(0)
        piece, self.line = self.line[:size], self.line[size:]
        return piece

    def close(self):
        self.closed = True


@pytest.fixture
def board():
    return FakeBoard()


@pytest.fixture
def link(board):
    return Link(board, "serial:/dev/x", timeout=0.05)


def card_on(board):
    return BoardCard(
        Link(board, "serial:/dev/x", timeout=0.05),
        arguments(1),
        build_id=BUILD,
        beat_bytes=8,
        size=1 << 16,
        manifest=Path("m.json"),
    )


def test_memory_and_windows(board, link):
    data = bytes(range(256)) * 40
    link.write(Operation.WRITE, 8, data)
    assert bytes(board.memory[8 : 8 + len(data)]) == data
    assert 1 < board.most <= 4
    assert link.read(Operation.READ, 8, len(data)) == data
    assert max(size for _, _, size in board.sent) == 1024


def test_a_run_is_one_frame_of_arguments_and_a_start(board):
    card = card_on(board)
    card.allocate({"io": 100, "hbm00": 5000})
    del board.sent[:]
    card.start(command=2, run_id=77, watchdog=5)
    assert [(operation, address) for operation, address, _ in board.sent] == [(3, 0x10), (3, 0)]
    offsets = {argument.name: argument.offset for argument in arguments(1)}
    for name, value in {
        "command": 2,
        "run_id": 77,
        "n_new": 0,
        "watchdog": 5,
        "io": 0,
        "hbm00": 4096,
    }.items():
        assert int.from_bytes(board.registers[offsets[name] : offsets[name] + 4], "little") == value
    assert card.wait(10)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda r: r[:9] + bytes([r[9] ^ 4]) + r[10:], "a reply arrived damaged: bytes were lost"),
        (lambda r: r[1:], "is no reply: bytes were lost"),
        (lambda r: r[:-1], "did not answer READ within 0.05 s"),
        (lambda r: b"", "did not answer READ within 0.05 s; is it the right line"),
    ],
)
def test_damaged_replies(board, link, harm, sentence):
    board.harm = harm
    with pytest.raises(UserError, match=sentence) as error:
        link.read(Operation.READ, 0, 16)
    assert "serial:/dev/x" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (
            LinkStatus.BAD_CRC,
            "a request was damaged, or bytes of it lost on the way to the board; use another cable",
        ),
        (LinkStatus.INCOMPLETE, "bytes of a request were lost on the way to the board"),
        (LinkStatus.BAD_REQUEST, "its bitstream and this release differ"),
        (LinkStatus.MEMORY, "SDRAM is not initialised; press its reset button"),
        (99, "the board answers status 99"),
    ],
)
def test_what_the_board_refuses(board, link, status, sentence):
    board.status = status
    with pytest.raises(UserError, match=sentence):
        link.write(Operation.WRITE, 0, b"12345678")


def test_a_pulled_cable(board, link):
    board.pulled = True
    with pytest.raises(UserError, match="the board is gone .*; plug its cable in"):
        link.read(Operation.READ, 0, 8)


def test_something_else_on_the_line(board, link):
    board.hello = b"\0" * Hello.BYTES
    with pytest.raises(UserError, match="is no symlight board of this release"):
        link.hello()


def test_another_bitstream():
    with pytest.raises(UserError, match="the board holds bitstream 0+99, .*m.json is of 0+1234"):
        card_on(FakeBoard(0x99))


def test_a_model_that_is_too_large(board):
    with pytest.raises(UserError, match="needs 69,632 bytes, the board's memory has 65,536"):
        card_on(board).allocate({"io": 4096, "hbm00": 65536})


def test_a_buffer_ends_where_it_ends(board):
    card = card_on(board)
    card.allocate({"io": 4096})
    with pytest.raises(ValueError, match="outside buffer io"):
        card.write("io", 4090, np.zeros(8, np.uint8))


def test_no_such_line(tmp_path):
    pytest.importorskip("serial", reason="pyserial is not installed")
    with pytest.raises(UserError, match="cannot be opened .*; give the board's own"):
        open_port(str(tmp_path / "nothing"), 115200)


def test_no_such_bitstream(tmp_path):
    with pytest.raises(UserError, match="does not exist; give the .bit file"):
        board_kernel(tmp_path / "board.bit")


def test_a_device_needs_a_line():
    with pytest.raises(UserError, match="serial:/dev/ttyUSB0"):
        open_board("", None)


def test_no_sentence_names_the_tool_of_the_cards():
    """A stuck kernel on a board: its button resets it, not XRT."""
    raw = np.zeros(MAILBOX_BYTES // 4, "<u4")
    raw[MAILBOX["magic"]], raw[MAILBOX["error"]] = MAILBOX_MAGIC, ErrorCode.STUCK_PORT
    sentence = Mailbox.decode(raw.tobytes(), 0, BoardCard.reset).fault(1, BoardCard.reset)
    with pytest.raises(DeviceFault) as stale:
        Mailbox.decode(raw.tobytes(), 1, BoardCard.reset)
    for said in (sentence, str(stale.value)):
        assert "FIRE1" in said and "xbutil" not in said
