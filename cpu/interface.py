"""Structures that Python and C++ share: declared once, in ctypes, and written out as a C++ header."""

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import (
    Structure,
    c_double,
    c_float,
    c_int8,
    c_int16,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint64,
    c_void_p,
)

_NAMES: dict[type, str] = {
    c_double: "double",
    c_float: "float",
    c_int8: "int8_t",
    c_int16: "int16_t",
    c_int32: "int32_t",
    c_int64: "int64_t",
    c_uint8: "uint8_t",
    c_uint16: "uint16_t",
    c_uint64: "uint64_t",
}


class Interface:
    """The structures of one library, in C++ namespace `namespace`.

    `mutable` names the structures through whose pointers the library writes. `enums`: names of the constants
    of each enumeration, which count from 0. `constants`: numbers, and sequences of them, by name.
    """

    def __init__(
        self,
        namespace: str,
        mutable: set[str],
        enums: dict[str, Sequence[str]] | None = None,
        constants: Mapping[str, int | Sequence[int]] | None = None,
    ):
        self._namespace, self._mutable = namespace, mutable
        self._enums, self._constants = enums or {}, constants or {}
        self.structures: list[type[Structure]] = []
        self._pointees: dict[tuple[str, str], str] = {}

    def structure(self, name: str, about: str = "", **fields: type | list[type]) -> type[Structure]:
        """A structure, `about` its docstring.

        Each field is a ctypes type, an array of one, or a list with the type that a pointer points to.
        """
        members = []
        for field, kind in fields.items():
            if isinstance(kind, list):
                self._pointees[name, field] = _NAMES.get(kind[0], kind[0].__name__)
                kind = c_void_p
            members.append((field, kind))
        made = type(name, (Structure,), {"_fields_": members, "__doc__": about})
        self.structures.append(made)
        return made

    def header(self) -> str:
        """The text of the C++ header; it asserts that both compilers lay the structures out alike."""
        lines = ["#pragma once", "#include <cstdint>", "", f"namespace {self._namespace} {{", ""]
        lines += [f"enum {name} {{ {', '.join(values)} }};" for name, values in self._enums.items()]
        for name, value in self._constants.items():
            if isinstance(value, int):
                lines.append(f"constexpr int {name} = {value};")
            else:
                lines.append(f"constexpr int {name}[] = {{{', '.join(map(str, value))}}};")
        for made in self.structures:
            lines.append(f"struct {made.__name__} {{")
            lines += [f"    {self._member(made, *member[:2])};" for member in made._fields_]
            lines += ["};", f"static_assert(sizeof({made.__name__}) == {ctypes.sizeof(made)});", ""]
        return "\n".join([*lines, f"}}  // namespace {self._namespace}", ""])

    def _member(self, made: type[Structure], field: str, kind: type) -> str:
        owner = made.__name__
        if kind is c_void_p:
            return f"{'' if owner in self._mutable else 'const '}{self._pointees[owner, field]}* {field}"
        if issubclass(kind, ctypes.Array):
            return f"{_NAMES[vars(kind)['_type_']]} {field}[{kind._length_}]"
        return f"{_NAMES.get(kind, kind.__name__)} {field}"
