"""Shapes from outside: JSON files of a shape or of a package's config."""

import json
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

from symlight.base.errors import UserError

from .config import ModelShape, Numerics

MOST_BYTES = 1 << 20  # of a file that holds a shape
_Integers = TypeVar("_Integers", ModelShape, Numerics)


def integers_from_json(kind: type[_Integers], data: object, source: str) -> _Integers:
    """A `ModelShape` or `Numerics` from an object of whole numbers; a `UserError` names `source`, field and
    value."""
    title = "model shape" if kind is ModelShape else "numerics"
    if not isinstance(data, dict):
        raise UserError(f"{source}: {title} is {data!r}, an object is required")
    known = [field.name for field in fields(kind)]
    for name in known:
        if name not in data:
            raise UserError(f"{source}: {title}: field {name!r} is missing")
    for name, value in data.items():
        if name not in known:
            raise UserError(f"{source}: {title}: field {name!r} is unknown; known: {', '.join(known)}")
        if type(value) is not int:
            whole = f"; write {int(value)}" if isinstance(value, float) and value.is_integer() else ""
            raise UserError(f"{source}: {title}: {name} = {value!r} is no whole number{whole}")
    try:
        return kind(**data)
    except UserError as error:
        raise UserError(f"{source}: {error}") from error


def read_shape(file: Path) -> ModelShape:
    """The shape in a JSON file: its fields alone, or in an object's field `shape` (a package's config)."""
    with file.open("rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UserError(f"{file} has more than {MOST_BYTES:,} bytes; give a JSON file of a model shape")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{file} is not readable JSON ({error}); give a JSON file of a model shape, or a package"
        ) from error
    if isinstance(content, dict) and "shape" in content:
        content = content["shape"]
    return integers_from_json(ModelShape, content, str(file))
