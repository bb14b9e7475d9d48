"""Frames of the serial link between host and board: both sides derive from this table.

    request   SYNC_REQUEST  operation  sequence  length(2)  address(4)  payload  CRC-32(4)
    reply     SYNC_REPLY    status     sequence  length(2)              payload  CRC-32(4)

Numbers are little endian. The CRC is that of zlib over everything between the first byte and itself. A
request has a payload of `length` bytes if its operation sends some (`SENDS`). A reply has one if it is OK and
its operation returns some. The host may have up to `WINDOW` requests without a reply that send data.
"""

import enum
import struct
from dataclasses import dataclass

SYNC_REQUEST, SYNC_REPLY = 0x5A, 0xA5
MAX_PAYLOAD = 1024  # bytes; the board keeps one payload until its CRC has come
WINDOW = 4  # requests on the way: while the board does one, the next fit its input queue
WORD_BYTES = 4  # of a register

REQUEST = struct.Struct("<BBBHI")  # sync, operation, sequence, length, address
REPLY = struct.Struct("<BBBH")  # sync, status, sequence, length
CRC = struct.Struct("<I")


class Operation(enum.IntEnum):
    """What a request asks for. Lengths and addresses are multiples of the unit in parentheses."""

    HELLO = 0  # `Hello.BYTES` bytes that say what the board is (beat)
    WRITE = 1  # memory from byte `address` on (beat)
    READ = 2  # the same (beat)
    SET = 3  # the kernel's control registers from `address` on, in order (word)
    GET = 4  # the same (word)


SENDS = (Operation.WRITE, Operation.SET)


class LinkStatus(enum.IntEnum):
    """Status of a reply."""

    OK = 0
    BAD_CRC = 1  # the request arrived damaged and was not done
    INCOMPLETE = 2  # its bytes stopped coming; whatever came of it was dropped
    BAD_REQUEST = 3  # unknown operation, or a length that the board does not take
    MEMORY = 4  # the SDRAM is not initialised


@dataclass(frozen=True)
class Hello:
    """What a board says of itself."""

    build_id: int  # 128 bits
    clock_khz: int  # of the kernel
    beat_bytes: int

    MAGIC = b"symlight"
    VERSION = 1
    LAYOUT = struct.Struct("<8s16sIHBB")  # magic, build id, clock, payload limit, beat bytes, version
    BYTES = LAYOUT.size

    def pack(self) -> bytes:
        """The bytes of a reply to HELLO."""
        identity = self.build_id.to_bytes(16, "little")
        return self.LAYOUT.pack(
            self.MAGIC, identity, self.clock_khz, MAX_PAYLOAD, self.beat_bytes, self.VERSION
        )

    @classmethod
    def unpack(cls, payload: bytes) -> "Hello":
        """The reverse; a `ValueError` if it is of something else, or of another version."""
        if len(payload) != cls.BYTES:
            raise ValueError(f"{len(payload)} bytes, not {cls.BYTES}")
        magic, identity, clock, limit, beat, version = cls.LAYOUT.unpack(payload)
        if (magic, limit, version) != (cls.MAGIC, MAX_PAYLOAD, cls.VERSION):
            raise ValueError(f"{magic!r}, payload {limit}, version {version}")
        return cls(int.from_bytes(identity, "little"), clock, beat)
