"""A mutation: one wrong line, and the tests that must see it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

LISTS = Path(__file__).parent / "lists"
HARDWARE = ("vector", "channel", "sequencer", "harness")  # lists for which no library fits
HOST = ("host",)  # of the Python rooms, beside those of modules.py


class Stale(ValueError):
    """The text that a mutation replaces does not stand exactly once in its file."""


@dataclass(frozen=True)
class Mutation:
    """Replace `old` by `new` in `file`, which holds it exactly once; `tests` (arguments of pytest) must fail.

    `file` is relative to the repository.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, tree: Path) -> str:
        """Change the file below `tree`; gives its text from before."""
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise Stale(f"{self.file} holds the text of mutation {self.name} {text.count(self.old)} times")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


def listed(name: str) -> list[Mutation]:
    """The mutations of lists/NAME.toml."""
    text = (LISTS / f"{name}.toml").read_text(encoding="utf-8")
    return [
        Mutation(**fields | {"tests": tuple(fields["tests"])}) for fields in tomllib.loads(text)["mutation"]
    ]
