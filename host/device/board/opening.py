"""Opening a board: its manifest, its serial line, its card."""

from dataclasses import dataclass
from pathlib import Path

import symlight.bitstreams
from symlight.base.errors import UserError, in_words
from symlight.base.json_file import read_object
from symlight.hw.interface import arguments

from ..kernels import MANIFEST, KernelInfo, read_manifest
from .card import BoardCard, open_port
from .link import TIMEOUT, Link, Port

RELEASED = Path(symlight.bitstreams.__file__).parent / "ulx3s"  # bitstream and manifest of the release


@dataclass(frozen=True)
class BoardKernel:
    """What the manifest beside a bitstream says: the kernel, the rate of the line, bytes of the memory."""

    kernel: KernelInfo
    baud: int
    memory: int


@in_words()
def board_kernel(bitstream: Path | None) -> BoardKernel:
    """The kernel in a bitstream; None: the released one."""
    manifest = (RELEASED if bitstream is None else bitstream.parent) / MANIFEST
    if bitstream is not None and not bitstream.is_file():
        raise UserError(f"{bitstream} does not exist; give the .bit file that the board was loaded with")
    kernel = read_manifest(manifest)
    again = "build the bitstream again (symlight bitstream)"
    try:
        board = read_object(manifest, again)["board"]
        return BoardKernel(kernel, int(board["baud"]), int(board["sdram_bytes"]))
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{manifest} is of no board; {again}") from None


def open_board(
    path: str, kernel: BoardKernel, port: Port | None = None, timeout: float = TIMEOUT
) -> BoardCard:
    """The card on the serial line at `path`; `port` replaces the line."""
    if not path:
        raise UserError("a board needs its serial line, as in --device serial:/dev/ttyUSB0")
    link = Link(port or open_port(path, kernel.baud), path, timeout=timeout)
    info = kernel.kernel
    try:
        return BoardCard(
            link,
            arguments(info.engine.channels),
            build_id=info.build_id,
            beat_bytes=info.engine.beat_bytes,
            size=kernel.memory,
            manifest=info.manifest,
        )
    except BaseException:
        link.close()
        raise
