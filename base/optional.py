"""Values that may be missing by their type, and are there where they are used."""

from typing import TypeVar

_Value = TypeVar("_Value")


def present(value: _Value | None) -> _Value:
    """`value` of which the caller knows that it is there, because it asked for it or checked it before.

    An `AssertionError` when it is None: a mistake in the program, which no user can mend.
    """
    assert value is not None, "a value is missing that was asked for"
    return value
