"""The host's side of the serial link (hw.board.protocol): requests, replies, faults of the line."""

import itertools
import time
import zlib
from collections import deque
from typing import Protocol

from symlight.base.errors import UserError
from symlight.hw.board.protocol import (
    CRC,
    MAX_PAYLOAD,
    REPLY,
    REQUEST,
    SENDS,
    SYNC_REPLY,
    SYNC_REQUEST,
    WINDOW,
    Hello,
    LinkStatus,
    Operation,
)

TIMEOUT = 10.0  # seconds until a reply has begun
STATUS_SENTENCES = {
    LinkStatus.BAD_CRC: "a request was damaged, or bytes of it lost on the way to the board; "
    "use another cable or USB port",
    LinkStatus.INCOMPLETE: "bytes of a request were lost on the way to the board; "
    "use another USB port, and close programs that read the same line",
    LinkStatus.BAD_REQUEST: "the board does not take the request; its bitstream and this release differ: "
    "load the bitstream that belongs to this release",
    LinkStatus.MEMORY: "the board's SDRAM is not initialised; press its reset button and start again",
}


class Port(Protocol):
    """Bytes to and from a board; what `serial.Serial` has of it."""

    def write(self, data: bytes) -> int | None: ...

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer when none came for a while."""

    def close(self) -> None: ...


class Link:
    """Requests to a board, one after the other; several writes may be on the way.

    Every failure is a `UserError` that names the line and the remedy, and the link is of no use afterwards.

    Parameters
    ----------
    port : Port
    name : str
        Of the line, for messages.
    timeout : float
        Seconds that the board may take for a reply.
    """

    def __init__(self, port: Port, name: str, *, timeout: float = TIMEOUT):
        self._port, self._name, self._timeout = port, name, timeout
        self._sequence = itertools.count()
        self._waiting: deque[tuple[int, Operation, int]] = deque()  # sequence, operation, bytes of its reply

    def close(self) -> None:
        """Give the line back."""
        self._port.close()

    def hello(self) -> Hello:
        """Ask the board what it is."""
        self._send(Operation.HELLO, 0, Hello.BYTES)
        try:
            return Hello.unpack(self._reply())
        except ValueError as error:
            raise UserError(
                f"what answers on {self._name} is no symlight board of this release ({error}); "
                "load the bitstream with openFPGALoader (docs/board.md)"
            ) from None

    def write(self, operation: Operation, address: int, data: bytes) -> None:
        """WRITE or SET: returns when the board has done all of it."""
        for first in range(0, len(data), MAX_PAYLOAD):
            while len(self._waiting) >= WINDOW:
                self._reply()
            self._send(operation, address + first, 0, data[first : first + MAX_PAYLOAD])
        while self._waiting:
            self._reply()

    def read(self, operation: Operation, address: int, size: int) -> bytes:
        """READ or GET."""
        pieces = []
        for first in range(0, size, MAX_PAYLOAD):
            self._send(operation, address + first, min(MAX_PAYLOAD, size - first))
            pieces.append(self._reply())
        return b"".join(pieces)

    # ---- frames ----

    def _send(self, operation: Operation, address: int, length: int, payload: bytes = b"") -> None:
        sends = operation in SENDS
        sequence = next(self._sequence) & 0xFF
        header = REQUEST.pack(SYNC_REQUEST, operation, sequence, len(payload) if sends else length, address)
        frame = header + payload
        self._waiting.append((sequence, operation, 0 if sends else length))
        self._put(frame + CRC.pack(zlib.crc32(frame[1:])))

    def _reply(self) -> bytes:
        """Payload of the reply to the oldest request."""
        expected, operation, wanted = self._waiting.popleft()
        header = self._take(REPLY.size, operation)
        sync, status, sequence, length = REPLY.unpack(header)
        if sync != SYNC_REPLY or length > MAX_PAYLOAD:
            self._damaged(f"0x{header.hex()} is no reply")
        payload = self._take(length, operation)
        (crc,) = CRC.unpack(self._take(CRC.size, operation))
        if crc != zlib.crc32(header[1:] + payload):
            self._damaged("a reply arrived damaged")
        if status != LinkStatus.OK:
            known = status in set(LinkStatus)
            why = STATUS_SENTENCES[LinkStatus(status)] if known else f"the board answers status {status}"
            raise UserError(f"{self._name}: {why}")
        if sequence != expected or length != wanted:
            self._damaged(f"reply {sequence} of {length} bytes came for request {expected} of {wanted}")
        return payload

    def _damaged(self, what: str) -> None:
        raise UserError(
            f"{self._name}: {what}: bytes were lost on the way from the board; "
            "press its reset button, and close programs that read the same line"
        )

    def _put(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except OSError as error:
            raise self._gone(error) from None

    def _take(self, size: int, operation: Operation) -> bytes:
        data = b""
        deadline = time.monotonic() + self._timeout
        while len(data) < size:
            try:
                piece = self._port.read(size - len(data))
            except OSError as error:
                raise self._gone(error) from None
            if piece:
                data += piece
                deadline = time.monotonic() + self._timeout
            elif time.monotonic() > deadline:
                raise UserError(
                    f"{self._name}: the board did not answer {operation.name} within {self._timeout:g} s; "
                    "is it the right line, and is the bitstream loaded? Press its reset button and try again"
                )
        return data

    def _gone(self, error: OSError) -> UserError:
        text = " ".join(str(error).split()) or type(error).__name__
        return UserError(f"{self._name}: the board is gone ({text}); plug its cable in and open it again")
