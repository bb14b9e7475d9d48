"""The manifest of a simulated board, as `symlight bitstream` writes it for a real one."""

import json
from pathlib import Path

from symlight.hw.compiler.manifest import kernel_manifest

from .board import BoardLibrary

MANIFEST, BITSTREAM = "manifest.json", "board.bit"


def write_manifest(library: BoardLibrary, folder: Path, *, build_id: int | None = None) -> Path:
    """Write it into `folder`, and an empty file in the bitstream's place, whose path is returned.

    `build_id` replaces the board's own: for tests.
    """
    board = library.board
    manifest = kernel_manifest(
        library.engine,
        library.build_id if build_id is None else build_id,
        {},
        card=board.card,
        build=board.build,
    ) | {"board": {"name": board.name, "baud": board.baud, "sdram_bytes": board.chip.size}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    (folder / BITSTREAM).write_bytes(b"")
    return folder / BITSTREAM
