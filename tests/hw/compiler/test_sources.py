"""hw.compiler.sources: the digest covers everything that the generator reads of other rooms."""

import ast
from pathlib import Path

import pytest

from symlight.hw.compiler.sources import IMPORTED
from tests.benches.places import ROOT

pytestmark = pytest.mark.timeout(60)


def _imports_of_model(root: Path) -> set[str]:
    found = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("symlight.model"):
                parts = node.module.split(".")[1:]
                if len(parts) == 1:
                    found |= {f"model/{alias.name}.py" for alias in node.names}
                else:
                    found.add("/".join(parts) + ".py")
    return found


def test_the_digest_covers_what_the_generator_imports():
    """The listed files, and what those import from their own room."""
    direct = _imports_of_model(ROOT / "hw")
    assert "model/config.py" in direct
    assert direct == set(IMPORTED)
