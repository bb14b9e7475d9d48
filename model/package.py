"""Model packages on disk (docs/package-format.md): a folder of configuration, weights, tokenizer, manifest.

Loading checks everything before anything is returned; saving writes a neighbouring folder and renames it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as tensor_bytes

from symlight.base.errors import UserError, in_words
from symlight.base.optional import present

from .config import OPTIONAL_SITES, ModelShape, Numerics
from .package_folder import (
    CONFIG,
    MANIFEST,
    TOKENIZER,
    V2,
    WEIGHTS,
    check_chat_template,
    check_content,
    check_folder,
    check_tensor_header,
    format_version,
    only_keys,
    read_json,
    read_tokenizer,
    write_json,
    written_folder,
)
from .shapes import integers_from_json
from .tokenizer import Tokenizer
from .weights import IntegerModel

__all__ = [  # the names of the files are part of the format
    "CONFIG",
    "FORMAT_VERSION",
    "MANIFEST",
    "TOKENIZER",
    "WEIGHTS",
    "Package",
    "PackageMeta",
    "load_package",
    "save_package",
]
FORMAT_VERSION = V2.version


@dataclass(frozen=True, kw_only=True)
class PackageMeta:
    """What a package says about itself besides shape and numerics."""

    name: str
    description: str = ""
    eos: int | None = None  # end-of-sequence token id
    bos: int | None = None  # beginning-of-sequence token id
    prepend_bos: bool = False  # the model was trained on texts that begin with `bos`
    chat_template: str | None = None  # Jinja over the messages of a chat; None: each on a line of its own
    synthetic: bool = False  # weights were generated, not trained
    logit_scale: float | None = None  # real logit = integer logit * logit_scale; None: unknown
    provenance: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Package:
    """A loaded package. `digest` is the sha256 of its manifest: it identifies the content."""

    path: Path
    shape: ModelShape
    numerics: Numerics
    meta: PackageMeta
    tokenizer_bytes: bytes | None
    digest: str
    event_sites: tuple[str, ...] = ()  # of OPTIONAL_SITES

    @cached_property
    def model(self) -> IntegerModel:
        """The weights. A package that was loaded lazily reads and checks them now."""
        check_content(self.path, WEIGHTS)
        try:
            model = IntegerModel.from_tensors(self.shape, self.numerics, _read_tensors(self.path / WEIGHTS))
            if model.event_sites != self.event_sites:
                raise UserError(
                    f"the tensors have the event sites {list(model.event_sites)}, {CONFIG} says "
                    f"{list(self.event_sites)}; build the package again"
                )
        except UserError as error:
            raise UserError(f"{self.path / WEIGHTS}: {error}") from error
        return model

    def encode(self, text: str, *, continues: bool = False) -> list[int]:
        """Token ids of a text as a session ingests it: with the beginning-of-sequence token first if the
        package says so, unless the text `continues` a session."""
        first = [present(self.meta.bos)] if self.meta.prepend_bos and not continues else []
        return first + self.tokenizer.encode(text, continues=continues)

    @cached_property
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
    version = _version(meta, model.event_sites)
    with written_folder(Path(path), V2, load_package, version=version) as folder:
        config: dict[str, object] = {"shape": model.shape.to_json(), "numerics": model.numerics.to_json()}
        config |= {name: getattr(meta, name) for name in _fields(version)}
        if version >= 3:
            config["event_sites"] = list(model.event_sites)
        write_json(folder / CONFIG, config)
        tensors = {name: np.ascontiguousarray(array) for name, array in model.tensors().items()}
        (folder / WEIGHTS).write_bytes(tensor_bytes(tensors))  # save_file would hide it from other users
        if tokenizer_bytes is not None:
            (folder / TOKENIZER).write_bytes(tokenizer_bytes)


@in_words()
def load_package(path: str | Path, *, lazy: bool = False) -> Package:
    """Read and check a package; every fault is a `UserError` that names the file and the value.

    A `lazy` package leaves the content of its weights until `model` is asked for: an engine that keeps them
    in another form, found by the digest, need not read them at all.
    """
    path = Path(path)
    digest = check_folder(path, V2, unread=frozenset({WEIGHTS}))
    shape, numerics, meta, sites = _read_config(path / CONFIG, format_version(path))
    tokenizer_bytes = read_tokenizer(path)
    package = Package(
        path=path,
        shape=shape,
        numerics=numerics,
        meta=meta,
        tokenizer_bytes=tokenizer_bytes,
        digest=digest,
        event_sites=sites,
    )
    if not lazy:
        _ = package.model  # refuse damaged weights now
    return package


# ---- configuration -------------------------------------------------------------------------------


def _version(meta: PackageMeta, sites: tuple[str, ...]) -> int:
    """The oldest version that can say it: releases that do not know the newest one read the package, too."""
    if meta.chat_template is not None:
        return 4
    if sites:
        return 3
    return 1 if meta.bos is None and not meta.prepend_bos else 2


def _fields(version: int) -> tuple[str, ...]:
    """Fields of `PackageMeta` in the order of the file."""
    bos = ("bos", "prepend_bos") if version >= 2 else ()
    template = ("chat_template",) if version >= 4 else ()
    return ("name", "description", "eos", *bos, *template, "synthetic", "logit_scale", "provenance")


def _read_config(file: Path, version: int) -> tuple[ModelShape, Numerics, PackageMeta, tuple[str, ...]]:
    config = read_json(file)
    newest = {"event_sites"} if version >= 3 else set()
    only_keys(file, config, {"shape", "numerics", *_fields(version), *newest}, version)
    config = {"bos": None, "prepend_bos": False, "chat_template": None, "event_sites": []} | config
    check_chat_template(str(file), config["chat_template"])
    if not isinstance(config["provenance"], dict):
        raise UserError(f"{file}: provenance is {config['provenance']!r}, an object is required")
    shape = integers_from_json(ModelShape, config["shape"], str(file))
    numerics = integers_from_json(Numerics, config["numerics"], str(file))
    for key, kind, text in (
        ("name", str, "a text"),
        ("description", str, "a text"),
        ("synthetic", bool, "true or false"),
        ("prepend_bos", bool, "true or false"),
    ):
        if not isinstance(config[key], kind):
            raise UserError(f"{file}: {key} is {config[key]!r}, {text} is required")
    for key in ("eos", "bos"):
        token = config[key]
        if token is not None and (type(token) is not int or not 0 <= token < shape.vocab):
            raise UserError(
                f"{file}: {key} is {token!r}, null or a token id in 0..{shape.vocab - 1} is required"
            )
    if config["prepend_bos"] and config["bos"] is None:
        raise UserError(f"{file}: prepend_bos is true, but bos is null; name the token")
    scale = config["logit_scale"]
    if scale is not None and (type(scale) not in (int, float) or not 0 < scale < 1):
        raise UserError(f"{file}: logit_scale is {scale!r}, null or a number between 0 and 1 is required")
    meta = PackageMeta(**{key: config[key] for key in _fields(V2.version)})
    return shape, numerics, meta, _event_sites(file, config["event_sites"])


def _event_sites(file: Path, names: object) -> tuple[str, ...]:
    """Optional event sites, in the order of OPTIONAL_SITES."""
    if not isinstance(names, list) or names != [site for site in OPTIONAL_SITES if site in names]:
        raise UserError(
            f"{file}: event_sites is {names!r}, a list out of {', '.join(OPTIONAL_SITES)}, in this order, "
            "is required"
        )
    return tuple(names)


def _read_tensors(file: Path) -> dict[str, np.ndarray]:
    try:
        check_tensor_header(file)
        return load_tensors(file.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise UserError(
            f"{file} is not a readable safetensors file ({error}); build the package again"
        ) from error
