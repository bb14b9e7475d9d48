"""Model packages by path or name."""

from pathlib import Path

import symlight.model
from symlight.model.errors import UserError
from symlight.model.package import Package, load_package

SHIPPED = Path(symlight.model.__file__).parent / "packages"


def find_package(name: str) -> Path:
    """The folder of a package: a path, or the name of one that comes with symlight."""
    path = Path(name)
    if path.exists():
        return path
    shipped = SHIPPED / name
    if path.name == name and shipped.is_dir():
        return shipped
    known = sorted(p.name for p in SHIPPED.iterdir() if p.is_dir()) if SHIPPED.is_dir() else []
    raise UserError(
        f"no model package is at {name!r}; give the path of one, or a shipped name "
        f"({', '.join(known) or 'there is none'})"
    )


def open_package(name: str) -> Package:
    """Load and check the package called `name`."""
    return load_package(find_package(name))
