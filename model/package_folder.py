"""Folders of files under a manifest: what all kinds of model packages share (docs/package-format.md).

A folder is checked whole before anything in it is used; a writer fills a neighbouring folder and renames it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from symlight.base.errors import UserError
from symlight.base.files import check_folder as check_folder_place
from symlight.base.files import read_bounded
from symlight.base.folders import LEFT, left_behind, written_whole
from symlight.base.json_file import parse, read_object

from .tokenizer import MOST_TOKENIZER_BYTES

MANIFEST, CONFIG, WEIGHTS, TOKENIZER = (
    "manifest.json",
    "config.json",
    "weights.safetensors",
    "tokenizer.model",
)
MOST_TEMPLATE_LETTERS = 1 << 16  # of a chat template
MOST_HEADER_BYTES = 100_000_000  # of a safetensors file, as its format bounds it
FILES = (CONFIG, WEIGHTS, TOKENIZER)  # all but the manifest, in its order; the tokenizer is optional


@dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of package. `kind` is a field of its manifest; None: the manifest has no such field."""

    kind: str | None
    title: str  # of the model family, in sentences
    version: int  # the newest
    oldest: int = 1  # that is read
    use: str  # what to do with a package of this kind, in sentences


V2 = Format(
    kind=None,
    title="SymbolicLight V2",
    version=4,
    use="give it to the commands and devices of SymbolicLight V2",
)
V1 = Format(
    kind="symboliclight-v1",
    title="SymbolicLight V1",
    version=2,
    use="it runs with `generate`, `chat`, `serve`, `eval` and `profile` and --device cpu only",
)
FORMATS = {form.kind: form for form in (V2, V1)}


@contextmanager
def written_folder(
    path: Path, form: Format, check: Callable[[Path], object], *, version: int | None = None
) -> Iterator[Path]:
    """An empty folder to fill with `FILES`; afterwards it gets a manifest, is checked and put to `path`.

    `version` of the format: the newest, unless an older one can say the same.

    An older package at `path` is replaced, other things are refused. `check(folder)` loads what was written:
    what cannot be loaded is not saved.
    """
    check_place(path, force=True)
    with written_whole(path) as folder:
        yield folder
        files = {
            name: {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size}
            for name in FILES
            if (folder / name).exists()
        }
        kind = {} if form.kind is None else {"kind": form.kind}
        write_json(folder / MANIFEST, {"format_version": version or form.version, **kind, "files": files})
        check(folder)


def check_place(path: Path, *, force: bool) -> None:
    """Refuse, before the work, a place for no package, and without `force` one that has a package."""
    if path.is_dir():
        content = {file.name for file in path.iterdir() if not file.name.startswith(LEFT)}
        if MANIFEST in content and not force:
            raise UserError(
                f"{path} holds a package already; choose another place, or replace it with --force"
            )
        if content and MANIFEST not in content:
            raise UserError(f"{path} exists and is not a package; choose another place or remove it")
    elif path.exists() or path.is_symlink():
        raise UserError(f"{path} exists and is not a folder; choose another place or remove it")
    check_folder_place(path)


def package_kind(path: Path) -> str | None:
    """The kind that the manifest of `path` states; None for V2, and for whatever a V2 loader will refuse."""
    if not (path / MANIFEST).is_file():
        return None
    return read_json(path / MANIFEST).get("kind")


def check_folder(path: Path, form: Format, unread: frozenset[str] = frozenset()) -> str:
    """Kind, version, the set of files, their sizes and hashes; the package's digest.

    The digest is the SHA-256 of the manifest: it identifies the content. Every fault is a `UserError`. The
    files `unread` are not hashed: `check_content` does that later.
    """
    if not path.is_dir():
        raise UserError(
            f"{path} is not a package folder: " + ("it is a file" if path.exists() else "it does not exist")
        )
    if not (path / MANIFEST).is_file():
        older = left_behind(path)
        if older is not None:
            raise UserError(
                f"{path} was being replaced by a process that was killed; the older package is whole in "
                f"{older}: move its files back to {path}, or save the package again"
            )
        raise UserError(f"{path} is not a package: {MANIFEST} is missing")
    manifest = read_json(path / MANIFEST)
    _check_kind(path, manifest, form)
    _check_files(path, manifest, form, unread)
    return sha256(path / MANIFEST)


def check_content(path: Path, name: str) -> None:
    """The hash of one file of a folder that `check_folder` has accepted."""
    _check_file(path / name, read_json(path / MANIFEST)["files"][name])


def format_version(path: Path) -> int:
    """The version of a folder that `check_folder` has accepted."""
    return read_json(path / MANIFEST)["format_version"]


def _check_kind(path: Path, manifest: dict, form: Format) -> None:
    kind = manifest.get("kind")
    if kind == form.kind:
        return
    other = FORMATS.get(kind) if kind is None or isinstance(kind, str) else None
    if other is None:
        raise UserError(f"{path / MANIFEST}: kind {kind!r} is unknown; use a matching release")
    raise UserError(f"{path} is a package of {other.title}, but {form.title} is needed here; {other.use}")


def _check_files(path: Path, manifest: dict, form: Format, unread: frozenset[str]) -> None:
    source = path / MANIFEST
    version = manifest.get("format_version")
    if type(version) is not int or not form.oldest <= version <= form.version:
        reads = f"{form.oldest} to {form.version}"
        raise UserError(
            f"{source}: format_version {version!r} is not supported, this reads versions {reads}; "
            "use a matching release or build the package again"
        )
    only_keys(source, manifest, {"format_version", "files"} | ({"kind"} if form.kind else set()), version)
    files = manifest["files"]
    if not isinstance(files, dict):
        raise UserError(f"{source}: files is {files!r}, an object of file names is required")
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise UserError(f"{source}: {name} is not listed under files, but every package has it")
    for name in files:
        if name not in FILES:
            raise UserError(f"{source}: file {name!r} is not part of a package of version {version}")
    for found in sorted(path.iterdir()):
        if found.name not in files and found.name != MANIFEST and not found.name.startswith(LEFT):
            raise UserError(f"{found} is not listed in {MANIFEST}; remove it or build the package again")
    for name, entry in files.items():
        if not isinstance(entry, dict) or set(entry) != {"sha256", "bytes"}:
            raise UserError(
                f"{source}: the entry of {name} is {entry!r}, an object with sha256 and bytes is required"
            )
        size, digest = entry["bytes"], entry["sha256"]
        if type(size) is not int or size < 0:
            raise UserError(f"{source}: bytes of {name} is {size!r}, a whole number is required")
        if not isinstance(digest, str) or re.fullmatch("[0-9a-f]{64}", digest) is None:
            raise UserError(
                f"{source}: sha256 of {name} is {digest!r}, 64 hexadecimal digits in lower case are required"
            )
        _check_file(path / name, entry, hashed=name not in unread)


def _check_file(file: Path, entry: dict, hashed: bool = True) -> None:
    if not file.is_file():
        raise UserError(f"{file} is missing, but {MANIFEST} lists it; copy the package again")
    size = file.stat().st_size
    if size != entry["bytes"]:
        raise UserError(
            f"{file} has {size} bytes, {MANIFEST} says {entry['bytes']!r}; copy the package again"
        )
    if not hashed:
        return
    digest = sha256(file)
    if digest != entry["sha256"]:
        raise UserError(
            f"{file} has sha256 {digest}, {MANIFEST} says {entry['sha256']!r}; copy the package again"
        )


def check_tensor_header(file: Path) -> None:
    """A `ValueError` where the header of a safetensors file names a tensor, or anything else, twice.

    The library takes the last one. What else may be wrong with a header is the library's matter.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length <= MOST_HEADER_BYTES:
            parse(stream.read(length))


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def only_keys(file: Path, data: dict, known: set[str], version: int) -> None:
    """A `UserError` unless `data` has exactly the fields `known` of a format's `version`."""
    missing, unknown = sorted(known - set(data)), sorted(set(data) - known)
    if missing:
        raise UserError(f"{file}: field {missing[0]!r} is missing")
    if unknown:
        raise UserError(f"{file}: field {unknown[0]!r} is unknown in version {version}")


def check_chat_template(source: str, template: object) -> None:
    """A `UserError` unless a package may have this chat template. Whether it is one shows when it is used."""
    if template is not None and not (
        isinstance(template, str) and 0 < len(template) <= MOST_TEMPLATE_LETTERS and template.strip()
    ):
        raise UserError(
            f"{source}: chat_template is {_shortened(template)}, null or a text of 1 to "
            f"{MOST_TEMPLATE_LETTERS} characters is required"
        )


def read_tokenizer(path: Path) -> bytes | None:
    """The tokenizer of the package at `path`; None where it has none."""
    file = path / TOKENIZER
    return read_bounded(file, MOST_TOKENIZER_BYTES) if file.is_file() else None


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def write_json(file: Path, data: dict) -> None:
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(file: Path) -> dict:
    """The object in a file of a package; a `UserError` where there is none."""
    return read_object(file, "build the package again")
