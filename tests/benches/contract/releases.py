"""The simulated card with the binding of one XRT release: the names and forms of call that it had, and no
others.

    api = binding((2, 16))      # as if it were `import pyxrt` of that release

What a release lacks is an AttributeError or a TypeError, and what it deprecates warns, as typings/pyxrt.pyi
says.
"""

import functools
import warnings
from types import SimpleNamespace

import numpy as np

from symlight.sim.pyxrt import module as pyxrt_sim
from tests.benches.contract.stub import Form, Name, Release, present, read_stub

SUPPORTED = ((2, 13), (2, 14), (2, 15), (2, 16), (2, 17), (2, 19), (2, 20), (2, 21), (2, 23), (2, 25))
STUB = read_stub()


class _Absent:
    """A member that the release does not have."""

    def __init__(self, name: str):
        self._name = name

    def __get__(self, *_):
        raise AttributeError(f"this release of pyxrt has no {self._name}")


def _is(value: object, annotation: str, owner: str) -> bool:
    """Whether the binding converts `value` to what the stub declares."""
    if " | " in annotation:
        return any(_is(value, part, owner) for part in annotation.split(" | "))
    if annotation == "int":
        return (
            not isinstance(value, (bool, float))
            and hasattr(value, "__index__")
            and not isinstance(value, pyxrt_sim.bo.flags)
        )
    if annotation == "str":
        return isinstance(value, str)
    if annotation == "Buffer":
        return isinstance(value, (bytes, bytearray, memoryview, np.ndarray))
    found = getattr(getattr(pyxrt_sim, owner, None), annotation, None) or getattr(pyxrt_sim, annotation, None)
    return isinstance(found, type) and isinstance(value, found)


def _fits(form: Form, arguments: tuple, owner: str) -> bool:
    if form.any_number:
        return True
    least = len(form.arguments) - form.optional
    return least <= len(arguments) <= len(form.arguments) and all(
        _is(value, annotation, owner) for value, annotation in zip(arguments, form.arguments, strict=False)
    )


def _choose(path: str, entry: Name, when: Release, arguments: tuple) -> Form:
    """The form of call that these arguments fit."""
    forms = [form for form in entry.forms if when in form.span and _fits(form, arguments, path.split(".")[0])]
    if not forms:
        kinds = ", ".join(type(value).__name__ for value in arguments)
        raise TypeError(f"{path}(): incompatible function arguments ({kinds}) in pyxrt {when[0]}.{when[1]}")
    if all(form.span.warned(when) for form in forms):
        warnings.warn(f"pyxrt.{path}() is deprecated", DeprecationWarning, stacklevel=4)
    return forms[0]


def _method(path: str, entry: Name, when: Release, function):
    @functools.wraps(function)
    def call(self, *arguments):
        _choose(path, entry, when, arguments)
        return function(self, *arguments)

    return call


def _class(name: str, entry: Name, when: Release) -> type:
    real = getattr(pyxrt_sim, name)
    members = {}
    for member, what in entry.members.items():
        if not present(what, when):
            members[member] = _Absent(f"{name}.{member}")
        elif what.forms and hasattr(real, member):
            members[member] = _method(f"{name}.{member}", what, when, getattr(real, member))
    return type(name, (real,), members)


def binding(when: Release) -> SimpleNamespace:
    """The module `pyxrt` of release `when`, over the plugged simulated cards."""
    names = {}
    for name in pyxrt_sim.__all__:
        entry, real = STUB[name], getattr(pyxrt_sim, name)
        if not present(entry, when):
            continue
        names[name] = (
            _class(name, entry, when) if entry.kind == "class" and "_Enum" not in entry.bases else real
        )
    return SimpleNamespace(**names, release=when)
