"""Packed weights on disk: laid out once for each package, found again by the package's digest.

<cache>/weights/<key>/weights.bin    the buffer of cpu.layout
<cache>/weights/<key>/weights.json   its size and checksums

A folder appears whole or not at all, and several processes may ask for it at once. Every opening reads the
file once: the matrices are copied to huge pages, the embedding table stays mapped, and the checksums are
compared. What is damaged is made again, never used.
"""

import hashlib
import json
import mmap
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from symlight.base.cache import cached, exclusive, room
from symlight.base.errors import UserError
from symlight.model.config import ModelShape, Numerics
from symlight.model.weights import IntegerModel

from . import layout
from .build import ROOM
from .layout import BY_ROW
from .library import Library
from .weights import Weights, huge_buffer

WEIGHTS = "weights"  # room of the cache
BINARY, DESCRIPTION = "weights.bin", "weights.json"


def stored_weights(
    digest: str,
    shape: ModelShape,
    numerics: Numerics,
    load: Callable[[], IntegerModel],
    library: Library,
    *,
    cache: Path | None = None,
    by_row: frozenset[str] = BY_ROW,
    threads: int = 1,
) -> Weights:
    """The weights of the package `digest`; `load` gives the model when the cache does not have them.

    Where the cache cannot be written, they are packed in memory.
    """
    folder = (room(None, ROOM) if cache is None else cache) / WEIGHTS
    key = _key(digest, by_row)
    made: list[Weights] = []

    def make(work: Path) -> None:
        made[:] = [Weights.pack(load(), by_row)]
        _write(work, made[0].buffer, layout.sections(shape, by_row)["embedding"].offset, library)

    for _ in range(2):
        try:
            path = cached(folder, key, make, sizes_only=True)  # _open reads and checks it
        except (OSError, UserError):
            if made:  # no space, or no permission: there is nothing wrong with the weights
                return made[0]
            raise
        if made:
            return made[0]
        found = _open(path, shape, numerics, by_row, library, threads)
        if found is not None:
            return found
        with exclusive(folder, key):
            shutil.rmtree(path, ignore_errors=True)
    raise UserError(f"{path} cannot be read back after it was written; choose another folder (--cache)")


def _key(digest: str, by_row: frozenset[str]) -> str:
    """Changes with the package and with everything that decides where a byte is stored."""
    source = Path(layout.__file__).read_bytes()
    return hashlib.sha256(repr((digest, sorted(by_row), source)).encode()).hexdigest()[:32]


def _write(folder: Path, buffer: np.ndarray, table: int, library: Library) -> None:
    """The embedding table begins at byte `table`; it has a checksum of its own."""
    buffer.tofile(folder / BINARY)
    checksums = [library.checksum(part) for part in (buffer[:table], buffer[table:])]
    about = {"bytes": buffer.nbytes, "checksums": checksums}
    (folder / DESCRIPTION).write_text(json.dumps(about) + "\n", encoding="utf-8")


def _open(
    folder: Path,
    shape: ModelShape,
    numerics: Numerics,
    by_row: frozenset[str],
    library: Library,
    threads: int,
) -> Weights | None:
    """None when the folder does not hold what was written there."""
    size = layout.buffer_bytes(shape, by_row)
    try:
        about = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        with (folder / BINARY).open("rb") as stream:
            mapped = np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        if about["bytes"] != size or mapped.nbytes != size:
            return None
        of_matrices, of_table = about["checksums"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    embedding = layout.sections(shape, by_row)["embedding"]
    buffer = huge_buffer(embedding.offset)
    if library.checksum(mapped[: embedding.offset], buffer, threads) != of_matrices:
        return None
    table = mapped[embedding.offset :]
    if library.checksum(table, threads=threads) != of_table:
        return None
    return Weights(shape, numerics, buffer, by_row, table)
