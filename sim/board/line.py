"""Serial lines of a simulated board: a port within the process, or a pseudo-terminal for other programs."""

import os
import select
import threading
import time
import tty

from .board import SimulatedBoard

SLICE = 20_000  # kernel cycles between two looks at the line
QUIET = 0.02  # seconds between looks while nothing happens
QUIET_SLICES = 200  # slices without a byte after which nothing happens


class SimulatedPort:
    """The line within the process: bytes move, and time passes, while they are read.

    It has the members that `host.device.board.link.Port` asks for.
    """

    def __init__(self, board: SimulatedBoard, cycles: int = 2_000_000):
        self._board, self._cycles = board, cycles

    def write(self, data: bytes) -> int:
        """Put bytes on the line."""
        self._board.send(data)
        return len(data)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer when none came in some million cycles."""
        self._board.run(self._cycles, wanted=size)
        return self._board.receive(size)

    def close(self) -> None:
        """The board goes on."""


class PseudoTerminal:
    """A simulated board behind a pseudo-terminal at `path`, run by a thread, until `close`.

    Parameters
    ----------
    board : SimulatedBoard
        Owned by the thread while it runs.
    lose : set of int
        Numbers of bytes towards the board that get lost on the way: for tests.
    """

    def __init__(self, board: SimulatedBoard, *, lose: frozenset[int] = frozenset()):
        self._board, self._lose, self._count = board, lose, 0
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.path = os.ttyname(self._slave)
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Pull the cable: the line is gone for whoever has it open."""
        self._stop.set()
        self._thread.join()
        for descriptor in (self._slave, self._master):
            if descriptor >= 0:
                os.close(descriptor)
        self._master = self._slave = -1

    def _serve(self) -> None:
        try:
            idle = 0
            while not self._stop.is_set():
                moved = self._move()
                idle = 0 if moved else idle + 1
                if idle > QUIET_SLICES:
                    time.sleep(QUIET)
        except BaseException as error:  # the owner's to see
            self.error = error

    def _move(self) -> bool:
        """Bytes that have come to the board, some cycles, bytes that have come of it; whether there were
        any."""
        came = b""
        if select.select([self._master], [], [], 0)[0]:
            came = os.read(self._master, 4096)
            kept = bytes(byte for i, byte in enumerate(came, self._count) if i not in self._lose)
            self._count += len(came)
            self._board.send(kept)
        self._board.run(SLICE)
        left = self._board.receive()
        if left:
            os.write(self._master, left)
        return bool(came or left)
