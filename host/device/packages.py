"""Model packages by path or name, and the golden tokens that are beside them."""

from dataclasses import dataclass
from pathlib import Path

import symlight.model
from symlight.base.errors import UserError, in_words
from symlight.base.json_file import read_object
from symlight.model.config import PRESETS, ModelShape
from symlight.model.package import Package, load_package
from symlight.model.package_folder import V1, package_kind
from symlight.model.shapes import read_shape
from symlight.model.v1.package import V1Package, load_v1

SHIPPED = Path(symlight.model.__file__).parent / "packages"


def find_package(name: str) -> Path:
    """The folder of a package: a path, or the name of one that comes with symlight."""
    path = Path(name)
    if path.exists():
        return path
    if is_shipped(name):
        return SHIPPED / name
    known = sorted(p.name for p in SHIPPED.iterdir() if p.is_dir()) if SHIPPED.is_dir() else []
    raise UserError(
        f"no model package is at {name!r}; give the path of one, or a shipped name "
        f"({', '.join(known) or 'there is none'})"
    )


def is_shipped(name: str) -> bool:
    """Whether a package of this name comes with symlight."""
    return Path(name).name == name and (SHIPPED / name).is_dir()


def named_shape(name: str) -> tuple[ModelShape, str]:
    """(shape, what to call it) of a preset, of a JSON file that `model.shapes` reads, or of a package."""
    if name in PRESETS:
        return PRESETS[name], name
    if Path(name).is_file():
        return read_shape(Path(name)), Path(name).stem
    if not Path(name).exists() and not is_shipped(name):
        raise UserError(
            f"no model is called {name!r}; give a preset ({', '.join(PRESETS)}), a JSON file of a shape, "
            "or a package"
        )
    package = open_package(name)
    return package.shape, package.meta.name


@in_words()
def open_package(name: str) -> Package:
    """Load and check the package called `name`, of SymbolicLight V2."""
    return load_package(find_package(name))


@in_words()
def open_any(name: str, *, lazy: bool = False) -> Package | V1Package:
    """Load and check the package called `name`, of either kind; `lazy` as in `load_package`."""
    path = find_package(name)
    return load_v1(path) if package_kind(path) == V1.kind else load_package(path, lazy=lazy)


@dataclass(frozen=True)
class GoldenRun:
    """Greedy tokens of a package, worked out by something that shares no code with the reference."""

    prompt_tokens: list[int]
    tokens: list[int]


def _ids(tokens: list[int]) -> list[int]:
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise ValueError(f"{tokens!r} is no list of token ids")
    return tokens


def golden_runs(package: Package) -> list[GoldenRun]:
    """The runs in `<package>.golden.json` beside the package; none without that file."""
    file = package.path.with_name(f"{package.path.name}.golden.json")
    try:
        content = read_object(file, "remove it or make it again")
        digest = content["package"]
        runs = [GoldenRun(_ids(run["prompt_tokens"]), _ids(run["tokens"])) for run in content["runs"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{file} is not a file of golden tokens ({error!r}); remove it or make it again"
        ) from error
    if digest != package.digest:
        raise UserError(
            f"{file} belongs to package {digest}, not to {package.digest}; remove it or make it again"
        )
    return runs
