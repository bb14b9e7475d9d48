"""Text from files on a terminal: what would steer the terminal, or not show, is written as an escape."""

import re

# C0 and C1 controls, the marks that change the direction of writing, separators of lines, lone surrogates
_HIDDEN = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_EVERY = re.compile(f"[{_HIDDEN}]")


def printable(text: str, keep: str = "") -> str:
    """`text` with an escape such as \\x1b or \\u202e for each such character but those in `keep`."""
    return _EVERY.sub(lambda match: _escape(match[0]) if match[0] not in keep else match[0], text)


def printable_json(text: str) -> str:
    """A JSON text of one line with escapes for such characters: the same value."""
    return _EVERY.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
