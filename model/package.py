"""Model packages on disk (docs/package-format.md): a folder of configuration, weights, tokenizer, manifest.

Loading checks everything before anything is returned; saving writes a neighbouring folder and renames it.
"""

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensor_bytes

from .config import ModelShape, Numerics
from .errors import UserError
from .tokenizer import Tokenizer
from .weights import IntegerModel

FORMAT_VERSION = 1
MANIFEST, CONFIG, WEIGHTS, TOKENIZER = (
    "manifest.json",
    "config.json",
    "weights.safetensors",
    "tokenizer.model",
)


@dataclass(frozen=True, kw_only=True)
class PackageMeta:
    """What a package says about itself besides shape and numerics."""

    name: str
    description: str = ""
    eos: int | None = None  # end-of-sequence token id
    synthetic: bool = False  # weights were generated, not trained
    logit_scale: float | None = None  # real logit = integer logit * logit_scale; None: unknown
    provenance: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Package:
    """A loaded package. `digest` is the sha256 of its manifest: it identifies the content."""

    path: Path
    model: IntegerModel
    meta: PackageMeta
    tokenizer_bytes: bytes | None
    digest: str

    @property
    def shape(self) -> ModelShape:
        return self.model.shape

    @property
    def numerics(self) -> Numerics:
        return self.model.numerics

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; a `UserError` when the package has none."""
        if self.tokenizer_bytes is None:
            raise UserError(
                f"package {self.path} has no {TOKENIZER}, so it cannot read or write text; "
                "give token ids, or another package"
            )
        tokenizer = Tokenizer(self.tokenizer_bytes, str(self.path / TOKENIZER))
        if tokenizer.size > self.shape.vocab:
            raise UserError(
                f"{self.path / TOKENIZER} has {tokenizer.size} pieces, "
                f"the model only {self.shape.vocab} vocabulary rows"
            )
        return tokenizer


def save_package(
    path: str | Path, model: IntegerModel, meta: PackageMeta, tokenizer_bytes: bytes | None = None
) -> None:
    """Write a package to `path`, all or nothing. An older package there is replaced, other things refused."""
    path = Path(path)
    if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} exists and is not a package; choose another place or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        temporary.chmod(0o755)
        config = {"shape": model.shape.to_json(), "numerics": model.numerics.to_json(), **_meta_to_json(meta)}
        _write_json(temporary / CONFIG, config)
        tensors = {name: np.ascontiguousarray(array) for name, array in model.tensors().items()}
        (temporary / WEIGHTS).write_bytes(tensor_bytes(tensors))  # save_file would hide it from other users
        names = [CONFIG, WEIGHTS]
        if tokenizer_bytes is not None:
            (temporary / TOKENIZER).write_bytes(tokenizer_bytes)
            names.append(TOKENIZER)
        files = {
            name: {"sha256": _sha256(temporary / name), "bytes": (temporary / name).stat().st_size}
            for name in names
        }
        _write_json(temporary / MANIFEST, {"format_version": FORMAT_VERSION, "files": files})
        load_package(temporary)  # what cannot be loaded is not saved
        _replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_package(path: str | Path) -> Package:
    """Read and check a package; every fault is a `UserError` that names the file and the value."""
    path = Path(path)
    if not path.is_dir():
        raise UserError(
            f"{path} is not a package folder: " + ("it is a file" if path.exists() else "it does not exist")
        )
    if not (path / MANIFEST).is_file():
        raise UserError(f"{path} is not a package: {MANIFEST} is missing")
    _check_files(path, _read_json(path / MANIFEST))
    shape, numerics, meta = _read_config(path / CONFIG)
    tensors = _read_tensors(path / WEIGHTS)
    try:
        model = IntegerModel.from_tensors(shape, numerics, tensors)
    except UserError as error:
        raise UserError(f"{path / WEIGHTS}: {error}") from error
    tokenizer_bytes = (path / TOKENIZER).read_bytes() if (path / TOKENIZER).is_file() else None
    return Package(
        path=path, model=model, meta=meta, tokenizer_bytes=tokenizer_bytes, digest=_sha256(path / MANIFEST)
    )


def _replace(temporary: Path, path: Path) -> None:
    """Rename into place; an older package survives until the new one is complete."""
    if not path.exists():
        os.rename(temporary, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
    os.rename(path, old / path.name)
    try:
        os.rename(temporary, path)
    except OSError:
        os.rename(old / path.name, path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


# ---- manifest ------------------------------------------------------------------------------------


def _check_files(path: Path, manifest: dict) -> None:
    """Version, the set of files, their sizes and hashes."""
    source = path / MANIFEST
    version = manifest.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise UserError(
            f"{source}: format_version {version!r} is not supported, this reads version {FORMAT_VERSION}; "
            "use a matching release or build the package again"
        )
    _only_keys(source, manifest, {"format_version", "files"})
    files = manifest["files"]
    if not isinstance(files, dict):
        raise UserError(f"{source}: files is {files!r}, an object of file names is required")
    for name in (CONFIG, WEIGHTS):
        if name not in files:
            raise UserError(f"{source}: {name} is not listed under files, but every package has it")
    for name in files:
        if name not in (CONFIG, WEIGHTS, TOKENIZER):
            raise UserError(f"{source}: file {name!r} is not part of a package of version {FORMAT_VERSION}")
    for found in sorted(path.iterdir()):
        if found.name not in files and found.name != MANIFEST:
            raise UserError(f"{found} is not listed in {MANIFEST}; remove it or build the package again")
    for name, entry in files.items():
        if not isinstance(entry, dict) or set(entry) != {"sha256", "bytes"}:
            raise UserError(
                f"{source}: the entry of {name} is {entry!r}, an object with sha256 and bytes is required"
            )
        _check_file(path / name, entry)


def _check_file(file: Path, entry: dict) -> None:
    if not file.is_file():
        raise UserError(f"{file} is missing, but {MANIFEST} lists it; copy the package again")
    size = file.stat().st_size
    if size != entry["bytes"]:
        raise UserError(
            f"{file} has {size} bytes, {MANIFEST} says {entry['bytes']!r}; copy the package again"
        )
    digest = _sha256(file)
    if digest != entry["sha256"]:
        raise UserError(
            f"{file} has sha256 {digest}, {MANIFEST} says {entry['sha256']!r}; copy the package again"
        )


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---- configuration -------------------------------------------------------------------------------


def _meta_to_json(meta: PackageMeta) -> dict:
    return {
        "name": meta.name,
        "description": meta.description,
        "eos": meta.eos,
        "synthetic": meta.synthetic,
        "logit_scale": meta.logit_scale,
        "provenance": meta.provenance,
    }


def _read_config(file: Path) -> tuple[ModelShape, Numerics, PackageMeta]:
    config = _read_json(file)
    _only_keys(file, config, {"shape", "numerics", *_meta_to_json(PackageMeta(name=""))})
    for key in ("shape", "numerics", "provenance"):
        if not isinstance(config[key], dict):
            raise UserError(f"{file}: {key} is {config[key]!r}, an object is required")
    try:
        shape, numerics = ModelShape.from_json(config["shape"]), Numerics.from_json(config["numerics"])
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    for key, kind, text in (
        ("name", str, "a text"),
        ("description", str, "a text"),
        ("synthetic", bool, "true or false"),
    ):
        if not isinstance(config[key], kind):
            raise UserError(f"{file}: {key} is {config[key]!r}, {text} is required")
    eos, scale = config["eos"], config["logit_scale"]
    if eos is not None and (type(eos) is not int or not 0 <= eos < shape.vocab):
        raise UserError(f"{file}: eos is {eos!r}, null or a token id in 0..{shape.vocab - 1} is required")
    if scale is not None and (type(scale) not in (int, float) or not 0 < scale < 1):
        raise UserError(f"{file}: logit_scale is {scale!r}, null or a number between 0 and 1 is required")
    return shape, numerics, PackageMeta(**{key: config[key] for key in _meta_to_json(PackageMeta(name=""))})


def _only_keys(file: Path, data: dict, known: set[str]) -> None:
    missing, unknown = sorted(known - set(data)), sorted(set(data) - known)
    if missing:
        raise UserError(f"{file}: field {missing[0]!r} is missing")
    if unknown:
        raise UserError(f"{file}: field {unknown[0]!r} is unknown in version {FORMAT_VERSION}")


def _write_json(file: Path, data: dict) -> None:
    file.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_json(file: Path) -> dict:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise UserError(f"{file} is not readable JSON ({error}); build the package again") from error
    if not isinstance(data, dict):
        raise UserError(f"{file} holds {type(data).__name__}, an object is required")
    return data


def _read_tensors(file: Path) -> dict[str, np.ndarray]:
    try:
        return load_tensors(file.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(
            f"{file} is not a readable safetensors file ({error}); build the package again"
        ) from error
