"""typings/pyxrt.pyi and the simulated card name the same things."""

import ast
import inspect
from pathlib import Path

from symlight.sim import pyxrt_sim

STUB = Path(__file__).resolve().parents[2] / "typings" / "pyxrt.pyi"
LATER = {"xclbin.get_ips", "xclbin.get_axlf", "run.add_callback"}      # of no use on a card, so not simulated


def _stub():
    """Top-level names of the stub whose lines carry [sim], and the members of the classes among them."""
    text = STUB.read_text()
    lines = text.splitlines()
    names = {}
    for node in ast.parse(text).body:
        simulated = hasattr(node, "lineno") and "[sim]" in lines[node.lineno - 1]
        if not simulated:
            continue
        if isinstance(node, ast.ClassDef):
            names[node.name] = {
                child.name if hasattr(child, "name") else child.target.id for child in node.body
                if isinstance(child, (ast.FunctionDef, ast.AnnAssign, ast.ClassDef))
            }
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = set()
        else:
            names[node.target.id] = set()
    return names


def test_simulated_names_exist():
    names = _stub()
    assert len(names) > 12
    for name, members in names.items():
        found = getattr(pyxrt_sim, name)
        for member in members:
            if f"{name}.{member}" not in LATER:
                assert hasattr(found, member), f"{name}.{member}"


def test_everything_public_is_declared():
    names = _stub()
    assert set(names) == set(pyxrt_sim.__all__)
    for name, members in names.items():
        value = getattr(pyxrt_sim, name)
        if inspect.isclass(value):
            extra = {member for member in vars(value) if not member.startswith("_")} - members
            assert not extra, f"{name}: {extra}"
