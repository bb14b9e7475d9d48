"""V1 packages on disk (docs/package-format.md, "SymbolicLight V1").

Weights are read a tensor at a time: the whole model is never in memory twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors.numpy import save as tensor_bytes

from symlight.base.errors import UserError, in_words
from symlight.base.json_file import parse

from ..package_folder import (
    CONFIG,
    TOKENIZER,
    V1,
    WEIGHTS,
    check_chat_template,
    check_folder,
    format_version,
    only_keys,
    read_json,
    read_tokenizer,
    write_json,
    written_folder,
)
from ..tokenizer import Tokenizer
from . import tensors as names
from .config import V1Shape

WEIGHT_TYPES = ("int8", "float32")
_DTYPES: dict[str, np.dtype] = {"F32": np.dtype("<f4"), "I8": np.dtype("i1")}
LOGIT_SCALE = 2.0**-20  # nats of a unit, where logits are given as integers
_SPECIAL = ("pad", "bos", "eos", "unk")


@dataclass(frozen=True, kw_only=True)
class V1Meta:
    """What a package says about itself besides its shape. Special token ids are the tokenizer's, or None."""

    name: str
    description: str = ""
    weights: str = "int8"  # of the matrices
    synthetic: bool = False  # weights were drawn, not trained
    pad: int | None = None
    bos: int | None = None  # put before the text of a session
    eos: int | None = None  # ends a text
    unk: int | None = None
    chat_template: str | None = None  # as in V2. Version 2
    provenance: dict = field(default_factory=dict)

    @property
    def logit_scale(self) -> float:
        return LOGIT_SCALE


@dataclass(frozen=True, kw_only=True)
class V1Package:
    """A checked package. `digest` is the sha256 of its manifest: it identifies the content."""

    path: Path
    shape: V1Shape
    meta: V1Meta
    weights: "WeightFile"
    tokenizer_bytes: bytes | None
    digest: str

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; a `UserError` when the package has none."""
        if self.tokenizer_bytes is None:
            raise UserError(
                f"package {self.path} has no {TOKENIZER}, so it cannot read or write text; "
                "give token ids, or another package"
            )
        return checked_tokenizer(self.tokenizer_bytes, str(self.path / TOKENIZER), self.shape)

    def encode(self, text: str, *, continues: bool = False) -> list[int]:
        """Token ids of a text; unless it `continues` a session, after the beginning-of-sequence token."""
        first = [] if continues or self.meta.bos is None else [self.meta.bos]
        return first + self.tokenizer.encode(text, continues=continues)

    @property
    def pieces(self) -> int:
        """Vocabulary rows that may be generated: later ones have no text."""
        return self.shape.vocab if self.tokenizer_bytes is None else self.tokenizer.size

    def float_tensors(self) -> dict[str, np.ndarray]:
        """All tensors for `float_model.FloatV1`, float32; an int8 matrix times its scales."""
        found = {name: self.weights.read(name) for name in (names.EMBEDDING, *names.vectors(self.shape))}
        for name in names.matrices(self.shape):
            weight, scale = self.matrix(name)
            found[f"{name}.weight"] = weight if scale is None else weight * scale[:, None]
        return found

    def matrix(self, name: str) -> tuple[np.ndarray, np.ndarray | None]:
        """(weights [out, in], scale [out] or None): int8 with a scale, or float32 without."""
        weight = self.weights.read(f"{name}.weight")
        return weight, self.weights.read(f"{name}.scale") if self.meta.weights == "int8" else None


def checked_tokenizer(content: bytes, source: str, shape: V1Shape) -> Tokenizer:
    """The tokenizer; a `UserError` when it has more pieces than the model vocabulary rows."""
    tokenizer = Tokenizer(content, source)
    if tokenizer.size > shape.vocab:
        raise UserError(
            f"{source} has {tokenizer.size} pieces, the model only {shape.vocab} vocabulary rows; "
            "give the tokenizer of this model"
        )
    return tokenizer


def quantise(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int8 [out, in], float32 scale [out]) of a matrix: symmetric, the largest of each output is 127."""
    scale = (np.abs(matrix).max(axis=1) / np.float32(127)).astype(np.float32)
    divisor = np.where(scale > 0, scale, np.float32(1))[:, None]
    return np.clip(np.rint(matrix / divisor), -127, 127).astype(np.int8), scale


def save_v1(
    path: str | Path,
    shape: V1Shape,
    meta: V1Meta,
    tensors: Iterable[tuple[str, np.ndarray]],
    tokenizer_bytes: bytes | None = None,
) -> None:
    """Write a package to `path`, all or nothing.

    `tensors` gives every float32 tensor by name, one at a time; matrices are quantised as they come if
    `meta.weights` says so.
    """
    matrices = {f"{name}.weight" for name in names.matrices(shape)}
    with written_folder(Path(path), V1, load_v1, version=_version(meta)) as folder:
        stored: dict[str, np.ndarray] = {}
        for name, tensor in tensors:
            if name in matrices and meta.weights == "int8":
                stored[name], stored[name.removesuffix("weight") + "scale"] = quantise(tensor)
            else:
                stored[name] = np.ascontiguousarray(tensor, np.float32)
        (folder / WEIGHTS).write_bytes(tensor_bytes(stored))
        del stored
        write_json(folder / CONFIG, {"shape": shape.to_json(), **_meta_to_json(meta)})
        if tokenizer_bytes is not None:
            (folder / TOKENIZER).write_bytes(tokenizer_bytes)


@in_words()
def load_v1(path: str | Path) -> V1Package:
    """Check a package; every fault is a `UserError` that names the file and the value."""
    path = Path(path)
    digest = check_folder(path, V1)
    shape, meta = _read_config(path / CONFIG, format_version(path))
    weights = WeightFile(path / WEIGHTS)
    weights.check(_expected(shape, meta.weights))
    for name in names.vectors(shape):
        if not np.isfinite(weights.read(name)).all():
            raise UserError(f"{path / WEIGHTS}: {name} has a value that is not finite")
    tokenizer_bytes = read_tokenizer(path)
    package = V1Package(
        path=path, shape=shape, meta=meta, weights=weights, tokenizer_bytes=tokenizer_bytes, digest=digest
    )
    if tokenizer_bytes is not None:
        package.tokenizer  # noqa: B018  refused now rather than at the first text
    return package


class WeightFile:
    """The tensors of a safetensors file, read one by one into memory of their own.

    The library's reader maps the whole file, whose pages then count beside the engine's copy of the weights.
    """

    def __init__(self, file: Path):
        self.file = file
        try:
            with file.open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                header = parse(stream.read(size) if size <= file.stat().st_size else b"")
            if not isinstance(header, dict):
                raise TypeError("the header is no object")
            header.pop("__metadata__", None)
            self._entries = {
                name: (_DTYPES[entry["dtype"]], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0])
                for name, entry in header.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{file} is not a readable safetensors file of a V1 package ({error!r}); "
                "build the package again"
            ) from error

    def check(self, expected: dict[str, tuple[np.dtype, tuple[int, ...]]]) -> None:
        """Names, types and shapes, and that the file holds them all."""
        missing, unknown = (
            sorted(set(expected) - set(self._entries)),
            sorted(set(self._entries) - set(expected)),
        )
        if missing or unknown:
            what = f"tensor {missing[0]} is missing" if missing else f"tensor {unknown[0]} is unknown"
            raise UserError(f"{self.file}: {what}")
        length = self.file.stat().st_size
        for name, wanted in expected.items():
            dtype, shape, offset = self._entries[name]
            if (dtype, shape) != wanted:
                raise UserError(
                    f"{self.file}: {name} is {dtype}{list(shape)}, {wanted[0]}{list(wanted[1])} is required"
                )
            if offset + dtype.itemsize * int(np.prod(shape)) > length:
                raise UserError(f"{self.file}: {name} ends after the file; build the package again")

    def read(self, name: str) -> np.ndarray:
        """A copy of a tensor."""
        dtype, shape, offset = self._entries[name]
        count = int(np.prod(shape))
        return np.fromfile(self.file, dtype, count, offset=offset).reshape(shape)

    def rows(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Copies of some rows of a matrix."""
        dtype, shape, offset = self._entries[name]
        found = np.empty((len(rows), shape[1]), dtype)
        with self.file.open("rb") as stream:
            for row, target in zip(rows, found, strict=True):
                stream.seek(offset + int(row) * target.nbytes)
                stream.readinto(target)
        return found


def _expected(shape: V1Shape, weights: str) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    single, byte = _DTYPES["F32"], _DTYPES["I8"]
    found: dict[str, tuple[np.dtype, tuple[int, ...]]] = {
        names.EMBEDDING: (single, (shape.vocab, shape.width))
    }
    found |= {name: (single, size) for name, size in names.vectors(shape).items()}
    for name, size in names.matrices(shape).items():
        found[f"{name}.weight"] = (byte if weights == "int8" else single, size)
        if weights == "int8":
            found[f"{name}.scale"] = (single, size[:1])
    return found


def _version(meta: V1Meta) -> int:
    """The oldest version that can say it."""
    return 1 if meta.chat_template is None else 2


def _fields(version: int) -> tuple[str, ...]:
    return tuple(name for name in V1Meta.__dataclass_fields__ if version >= 2 or name != "chat_template")


def _meta_to_json(meta: V1Meta) -> dict:
    return {name: getattr(meta, name) for name in _fields(_version(meta))}


def _read_config(file: Path, version: int) -> tuple[V1Shape, V1Meta]:
    config = read_json(file)
    only_keys(file, config, {"shape", *_fields(version)}, version)
    config = {"chat_template": None} | config
    check_chat_template(str(file), config["chat_template"])
    for name, kind, text in (
        ("shape", dict, "an object"),
        ("provenance", dict, "an object"),
        ("name", str, "a text"),
        ("description", str, "a text"),
        ("synthetic", bool, "true or false"),
    ):
        if not isinstance(config[name], kind):
            raise UserError(f"{file}: {name} is {config[name]!r}, {text} is required")
    if config["weights"] not in WEIGHT_TYPES:
        raise UserError(f"{file}: weights is {config['weights']!r}, {' or '.join(WEIGHT_TYPES)} is required")
    try:
        shape = V1Shape.from_json(config.pop("shape"))
    except UserError as error:
        raise UserError(f"{file}: {error}") from error
    for name in _SPECIAL:
        token = config[name]
        if token is not None and (type(token) is not int or not 0 <= token < shape.vocab):
            raise UserError(
                f"{file}: {name} is {token!r}, null or a token id in 0..{shape.vocab - 1} is required"
            )
    return shape, V1Meta(**config)
