"""What comes in as text: bytes of the outside become text, or one sentence that says where they are not."""

import codecs
import os

from symlight.base.errors import UserError

BOM = "\ufeff"


def from_bytes(data: bytes, what: str) -> str:
    """UTF-8 as text, without a byte order mark. `what` names its origin in the `UserError`."""
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{what} is not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start} "
            f"({error.reason}); convert it to UTF-8"
        ) from None


def checked(text: str, what: str) -> str:
    """A text without a byte order mark and lone surrogates.

    Python turns bytes of the command line that the locale cannot decode into lone surrogates; where the bytes
    are UTF-8, they become text again.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        try:
            return from_bytes(os.fsencode(text), what)
        except UnicodeEncodeError:
            raise UserError(
                f"{what} holds the lone surrogate {text[error.start]!a} at character {error.start}, "
                "which is no character; remove it"
            ) from None
    return text.removeprefix(BOM)
