"""Structures that Python and C++ share: declared once, in ctypes, and written out as a C++ header."""

import ctypes
from ctypes import Structure, c_float, c_int8, c_int16, c_int32, c_int64, c_uint8, c_void_p

_NAMES = {
    c_int8: "int8_t",
    c_int16: "int16_t",
    c_int32: "int32_t",
    c_int64: "int64_t",
    c_uint8: "uint8_t",
    c_float: "float",
}


class Interface:
    """The structures of one library, in C++ namespace `namespace`.

    `mutable` names the structures through whose pointers the library writes.
    """

    def __init__(self, namespace: str, mutable: set[str]):
        self._namespace, self._mutable = namespace, mutable
        self._structures: list[type[Structure]] = []
        self._pointees: dict[tuple[str, str], str] = {}

    def structure(self, name: str, **fields) -> type[Structure]:
        """A structure; each field is a ctypes type, or a list with the type that a pointer points to."""
        members = []
        for field, kind in fields.items():
            if isinstance(kind, list):
                self._pointees[name, field] = _NAMES.get(kind[0], kind[0].__name__)
                kind = c_void_p
            members.append((field, kind))
        made = type(name, (Structure,), {"_fields_": members})
        self._structures.append(made)
        return made

    def header(self) -> str:
        """The text of the C++ header; it asserts that both compilers lay the structures out alike."""
        lines = ["#pragma once", "#include <cstdint>", "", f"namespace {self._namespace} {{", ""]
        for made in self._structures:
            owner = made.__name__
            const = "" if owner in self._mutable else "const "
            lines.append(f"struct {owner} {{")
            for field, kind in made._fields_:
                if kind is c_void_p:
                    lines.append(f"    {const}{self._pointees[owner, field]}* {field};")
                else:
                    lines.append(f"    {_NAMES.get(kind, kind.__name__)} {field};")
            lines += ["};", f"static_assert(sizeof({owner}) == {ctypes.sizeof(made)});", ""]
        return "\n".join([*lines, f"}}  // namespace {self._namespace}", ""])
