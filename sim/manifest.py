"""A generated kernel on disk: a folder with Verilog files and `manifest.json`, which says what they are.

    {"format_version": 1, "kernel": "symlight", "build_id": "<32 hex digits>", "engine": {...},
     "files": {"symlight.v": {"sha256": "...", "bytes": 123}, ...}}

`build_id` is the number that the kernel writes into every mailbox; `engine` is `hw.config.Engine.to_json`.
The simulated card takes such a folder (or a file in it: manifest.json, an .xclbin) where a card takes an
.xclbin.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from symlight.base.errors import UserError, in_words
from symlight.base.json_file import read_object
from symlight.hw.compiler.manifest import FORMAT_VERSION
from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME

MANIFEST = "manifest.json"
AGAIN = "generate the kernel again (symlight verilog)"


@dataclass(frozen=True)
class KernelFolder:
    """A kernel whose manifest has been read and whose files have been checked.

    Members
    -------
    path : Path
        The folder.
    build_id : str
        32 hexadecimal digits.
    engine : Engine
    sources : list of Path
        Verilog files, by name.
    """

    path: Path
    build_id: str
    engine: Engine
    sources: list[Path]

    @property
    def uuid(self) -> str:
        """The build id in the form of a UUID."""
        d = self.build_id
        return "-".join((d[:8], d[8:12], d[12:16], d[16:20], d[20:]))


@in_words()
def read_kernel(path: str | Path) -> KernelFolder:
    """Read and check the kernel in folder `path` (a file in it will do); `UserError` says what is wrong with
    it."""
    path = Path(path)
    folder = path.parent if path.is_file() or path.name == MANIFEST else path
    source = folder / MANIFEST
    try:
        manifest = read_object(source, AGAIN)
    except FileNotFoundError:
        raise UserError(f"{source} does not exist; give the folder of a kernel (symlight verilog)") from None
    if manifest.get("format_version") != FORMAT_VERSION:
        raise UserError(f"{source}: this program reads format_version {FORMAT_VERSION}; {AGAIN}")
    keys = {"format_version", "kernel", "build_id", "engine", "files"}
    if not keys <= set(manifest):
        raise UserError(f"{source}: {sorted(keys - set(manifest))} are missing; {AGAIN}")
    if manifest["kernel"] != KERNEL_NAME:
        raise UserError(f"{source}: kernel {manifest['kernel']!r} is not {KERNEL_NAME!r}")
    build_id = manifest["build_id"]
    if not isinstance(build_id, str) or len(build_id) != 32 or not set(build_id) <= set("0123456789abcdef"):
        raise UserError(f"{source}: build_id {build_id!r} is not 32 hexadecimal digits")
    if not isinstance(manifest["files"], dict) or not isinstance(manifest["engine"], dict):
        raise UserError(f"{source}: files and engine must be objects; {AGAIN}")
    sources = [_checked(source, name, entry) for name, entry in sorted(manifest["files"].items())]
    return KernelFolder(source.parent, build_id, read_engine(manifest["engine"], source), sources)


def read_engine(data: dict, source: Path) -> Engine:
    """The engine of a manifest; a `UserError` names the manifest."""
    try:
        return Engine.from_json(data)
    except (UserError, TypeError) as error:  # a text where a number belongs
        raise UserError(f"{source}: {error}; {AGAIN}") from error


def _checked(manifest: Path, name: str, entry: object) -> Path:
    file = manifest.parent / name
    if not isinstance(entry, dict) or "sha256" not in entry:
        raise UserError(f"{manifest}: the entry of {name} has no sha256; {AGAIN}")
    try:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise UserError(f"{file} does not exist, but {MANIFEST} lists it; {AGAIN}") from None
    if digest != entry["sha256"]:
        raise UserError(f"{file} is not the file that {MANIFEST} lists; {AGAIN}")
    return file


def write_kernel(path: Path, *, engine: Engine, build_id: str, files: dict[str, str]) -> KernelFolder:
    """Write Verilog `files` (name -> text) and their manifest into folder `path`."""
    path.mkdir(parents=True, exist_ok=True)
    entries = {}
    for name, text in files.items():
        content = text.encode()
        (path / name).write_bytes(content)
        entries[name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    manifest = {
        "format_version": FORMAT_VERSION,
        "kernel": KERNEL_NAME,
        "build_id": build_id,
        "engine": engine.to_json(),
        "files": entries,
    }
    (path / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return read_kernel(path)
