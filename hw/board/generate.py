"""The board's design as one Verilog module, `symlight_board`, with an identity: what is simulated is what is
synthesised."""

import hashlib
import json
import re

import symlight

from ..compiler.generate import identity_verilog, no_collection
from .board import Board
from .core import BoardCore
from .uart import divisor
from .verilog import component_verilog

BOARD_MODULE = "symlight_board"


def core_verilog(board: Board, *, divisor: int, gap: int) -> str:
    """Module `symlight_board` without the module of its identity."""
    core = BoardCore(
        engine=board.engine, chip=board.chip, sdram_mhz=board.sdram_mhz, divisor=divisor, gap=gap
    )
    with no_collection():
        text = component_verilog(core, BOARD_MODULE)
    # The FPGA has no UltraRAM; its memories are block RAM.
    return re.sub(r'ram_style = "ultra"', 'ram_style = "block"', text)


def generate_board(
    board: Board, *, line_divisor: int | None = None, gap: int | None = None
) -> tuple[str, int]:
    """Verilog of the board's design and its build id, the hash of text, engine and version.

    `line_divisor` and `gap` replace those of the board: simulations have a faster line.
    """
    text = core_verilog(
        board,
        divisor=line_divisor or divisor(board.kernel_hz, board.baud),
        gap=gap or board.gap,
    )
    digest = hashlib.sha256()
    for part in (text, json.dumps(board.engine.to_json(), sort_keys=True), symlight.__version__):
        digest.update(part.encode() + b"\0")
    build_id = int.from_bytes(digest.digest()[:16], "little")
    return text + identity_verilog(build_id), build_id
