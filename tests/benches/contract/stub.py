"""typings/pyxrt.pyi as data: every name with its releases, every form of call with its arguments."""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.benches.places import ROOT

STUB = ROOT / "typings" / "pyxrt.pyi"
SINCE = re.compile(
    r"#\s*(\d+\.\d+)(?: to (\d+\.\d+))?(?:[^#;,]*, and (\d+\.\d+))?(?:, warns from (\d+\.\d+))?"
)
FIRST = (2, 8)  # the first release that had this binding
Release = tuple[int, int]


def release(text: str) -> Release:
    """ "2.16" -> (2, 16)."""
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Span:
    """Releases that have something: since .. until (None: the newest), and again from `again`; `warns`:
    deprecated from there on."""

    since: Release
    until: Release | None = None
    again: Release | None = None
    warns: Release | None = None

    def __contains__(self, when: Release) -> bool:
        first = self.since <= when and (self.until is None or when <= self.until)
        return first or (self.again is not None and when >= self.again)

    def warned(self, when: Release) -> bool:
        return self.warns is not None and when >= self.warns


@dataclass(frozen=True)
class Form:
    """One form of call. `arguments`: the annotations of the positional ones; `any_number`: *args follow."""

    span: Span
    arguments: tuple[str, ...]
    optional: int = 0
    any_number: bool = False


@dataclass
class Name:
    """A constant, function, class or member: its releases, forms of call, and members."""

    span: Span
    kind: str  # value, function or class
    forms: list[Form] = field(default_factory=list)
    members: dict[str, "Name"] = field(default_factory=dict)
    bases: tuple[str, ...] = ()


def _span(node: ast.stmt, lines: list[str], around: Span) -> Span:
    last = node.body[0].lineno - 1 if isinstance(node, ast.ClassDef) else node.end_lineno
    for line in lines[node.lineno - 1 : max(last, node.lineno)]:
        found = SINCE.search(line)
        if found:
            return Span(*(release(part) if part else None for part in found.groups()))
    return around


def _form(node: ast.FunctionDef, span: Span, method: bool) -> Form:
    arguments = node.args.args[method:]
    return Form(
        span,
        tuple(ast.unparse(a.annotation) for a in arguments),
        len(node.args.defaults),
        node.args.vararg is not None,
    )


def _read(body: list[ast.stmt], lines: list[str], around: Span, inside: bool) -> dict[str, Name]:
    names: dict[str, Name] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign):
            names[node.target.id] = Name(_span(node, lines, around), "value")
        elif isinstance(node, ast.FunctionDef):
            span = _span(node, lines, around)
            name = names.setdefault(node.name, Name(span, "function"))
            name.forms.append(_form(node, span, inside))
        elif isinstance(node, ast.ClassDef):
            span = _span(node, lines, around)
            members = _read(node.body, lines, span, True)
            names[node.name] = Name(
                span, "class", members=members, bases=tuple(ast.unparse(b) for b in node.bases)
            )
    return names


def read_stub(path: Path = STUB) -> dict[str, Name]:
    """Names of the module; those that begin with _ are the stub's own."""
    text = path.read_text()
    names = _read(ast.parse(text).body, text.splitlines(), Span(FIRST), False)
    return {name: entry for name, entry in names.items() if not name.startswith("_")}


def present(entry: Name, when: Release) -> bool:
    """Whether a release has it: a function is there while one of its forms is."""
    if entry.forms:
        return any(when in form.span for form in entry.forms)
    return when in entry.span
