"""A board as the driver's card: buffers in its SDRAM, registers of its kernel, over the serial link.

`BoardCard` has the members of `host.device.card.Card`.
"""

import time
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.hw.board.protocol import WORD_BYTES, Operation
from symlight.hw.control import CTRL, Ctrl
from symlight.hw.interface import Argument

from ..card import PAGE, SCALAR_LIMIT
from .link import Link, Port

READ_TIMEOUT = 0.05  # seconds that a read of the line waits for more bytes
POLL = 0.002  # seconds between looks at the kernel


def open_port(path: str, baud: int) -> Port:
    """The serial line at `path`; a `UserError` when it cannot be opened."""
    try:
        import serial
    except ImportError:
        raise UserError(
            "a board on a serial line needs the package pyserial; run: pip install 'symlight[board]'"
        ) from None
    try:
        port: Port = serial.Serial(path, baud, timeout=READ_TIMEOUT, exclusive=True)
        return port
    except (OSError, ValueError) as error:
        text = " ".join(str(error).split())
        raise UserError(
            f"the serial line {path} cannot be opened ({text}); give the board's own, as "
            "--device serial:/dev/ttyUSB0, and see that no other program has it"
        ) from None


class BoardCard:
    """A board behind a link: the kernel of one channel and the SDRAM.

    Parameters
    ----------
    link : Link
        Owned from here on.
    arguments : list[Argument]
        The kernel's arguments, in order.
    build_id : int
        That the board must have.
    beat_bytes : int
        Of the kernel's memory port.
    size : int
        Bytes of the SDRAM.
    manifest : Path
        For messages.
    """

    reset = "reset the board (its button FIRE1)"

    def __init__(
        self,
        link: Link,
        arguments: list[Argument],
        *,
        build_id: int,
        beat_bytes: int,
        size: int,
        manifest: Path,
    ):
        self._link, self._beat, self._size = link, beat_bytes, size
        self._arguments = {argument.name: argument for argument in arguments}
        self._buffers: dict[str, tuple[int, int]] = {}  # address, bytes
        self._scalars: dict[int, int] = {}  # as last given, by offset
        hello = link.hello()
        if hello.build_id != build_id:
            raise UserError(
                f"the board holds bitstream {hello.build_id:032x}, {manifest} is of {build_id:032x}; "
                "load the bitstream that is beside the manifest"
            )

    def allocate(self, sizes: dict[str, int]) -> None:
        """A buffer of so many bytes for every named pointer argument, one after the other from address 0."""
        address = 0
        for name, size in sizes.items():
            size = -(-size // PAGE) * PAGE
            self._buffers[name] = (address, size)
            address += size
        if address > self._size:
            raise UserError(
                f"the model needs {address:,} bytes, the board's memory has {self._size:,}; "
                "use a smaller model"
            )
        for name, (where, _) in self._buffers.items():
            words = np.array([where, 0], "<u4")
            self._link.write(Operation.SET, self._arguments[name].offset, words.tobytes())

    def write(self, name: str, offset: int, data: np.ndarray) -> None:
        """Copy `data` into a buffer of the board; other bytes of the first and the last beat keep their
        values."""
        raw = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        if not raw.size:
            return
        address = self._place(name, offset, raw.size)
        first, last = self._beats(address, raw.size)
        content = bytearray(last - first)
        for edge in {first, last - self._beat}:
            if edge < address or edge + self._beat > address + raw.size:
                content[edge - first : edge - first + self._beat] = self._link.read(
                    Operation.READ, edge, self._beat
                )
        content[address - first : address - first + raw.size] = raw.tobytes()
        self._link.write(Operation.WRITE, first, bytes(content))

    def read(self, name: str, offset: int, size: int) -> np.ndarray:
        """Bytes of a buffer as the kernel left them, uint8."""
        if not size:
            return np.zeros(0, np.uint8)
        address = self._place(name, offset, size)
        first, last = self._beats(address, size)
        raw = self._link.read(Operation.READ, first, last - first)
        return np.frombuffer(raw, np.uint8)[address - first :][:size]

    def start(self, **scalars: int) -> None:
        """Start the kernel."""
        for name, value in scalars.items():
            if not 0 <= value < SCALAR_LIMIT:
                raise ValueError(f"kernel argument {name} = {value} does not fit 31 bits")
            self._scalars[self._arguments[name].offset] = value
        first, last = min(self._scalars), max(self._scalars)
        words = np.zeros((last - first) // WORD_BYTES + 1, "<u4")  # nothing is between two arguments
        for offset, value in self._scalars.items():
            words[(offset - first) // WORD_BYTES] = value
        self._link.write(Operation.SET, first, words.tobytes())
        start = Ctrl.const({"start": 1}).as_bits()
        self._link.write(Operation.SET, CTRL, start.to_bytes(WORD_BYTES, "little"))

    def wait(self, milliseconds: int) -> bool:
        """True once the kernel is done, False after so long."""
        deadline = time.monotonic() + milliseconds / 1000
        while True:
            word = int.from_bytes(self._link.read(Operation.GET, CTRL, WORD_BYTES), "little")
            if Ctrl.from_bits(word).idle:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL)

    def info(self, what: str) -> str:
        """A board has no sensors."""
        raise UserError(f"the board has no sensor for {what}")

    def close(self) -> None:
        """Give the line back."""
        self._link.close()

    def _place(self, name: str, offset: int, size: int) -> int:
        """Address of a part of a buffer."""
        base, room = self._buffers[name]
        if offset < 0 or offset + size > room:
            raise ValueError(f"{size} bytes at {offset} are outside buffer {name} of {room}")
        return base + offset

    def _beats(self, address: int, size: int) -> tuple[int, int]:
        beat = self._beat
        return address // beat * beat, -(-(address + size) // beat) * beat
