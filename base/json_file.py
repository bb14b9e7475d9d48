"""JSON out of files that somebody else may have written: an object, or one sentence."""

import json
from pathlib import Path

from .errors import UserError
from .files import read_bounded

MOST_BYTES = 1 << 28  # of a JSON file: records of long soaks are the largest


def parse(text: str | bytes) -> object:
    """The value of a JSON text.

    A `ValueError` where it is not JSON, where an object names a field twice, and for NaN and Infinity, which
    Python's reader takes and JSON has not.
    """
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)


def read_object(file: Path, remedy: str) -> dict:
    """The object in a JSON file.

    A `UserError` ends with `remedy` when the file is not UTF-8, not JSON, nested beyond reason, no object,
    names a field twice, or names lone surrogates, which are no text. A file that cannot be read is an
    `OSError`.
    """
    try:
        data = parse(read_bounded(file, MOST_BYTES).decode("utf-8"))
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        surrogate = error.object[error.start]
        raise UserError(
            f"{file} holds the lone surrogate {surrogate!a}, which is no character; {remedy}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not readable JSON ({error}); {remedy}") from error
    if not isinstance(data, dict):
        raise UserError(f"{file} holds {type(data).__name__}, an object is required; {remedy}")
    return data


def _once(pairs: list[tuple[str, object]]) -> dict:
    """An object whose fields are all different; readers of JSON disagree about the others."""
    found: dict = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"field {name!r} is there twice")
        found[name] = value
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
