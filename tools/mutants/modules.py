"""Mutations of whole Python modules by a library, cosmic-ray: every operator at every place."""

import itertools
import random

from .mutation import Mutation
from .tree import ROOT

# module: the tests that must see its mutations
MODULES: dict[str, tuple[str, ...]] = {
    "model/ops.py": ("tests/model/test_ops.py", "tests/model/test_reference.py"),
    "model/scaling.py": ("tests/model/training/test_quantise.py",),
    "model/state.py": ("tests/model/test_reference.py", "tests/model/test_session_file.py"),
    "model/session_file.py": ("tests/model/test_session_file.py",),
    "host/device/mailbox.py": ("tests/host/device/test_driver.py", "tests/contract/test_driver_contract.py"),
    "host/device/verify.py": ("tests/host/device/test_session.py",),
    "host/bench/energy.py": ("tests/host/bench/test_energy.py",),
    "host/soak/soak.py": ("tests/host/soak/test_soak.py",),
    "bitstreams/axlf.py": ("tests/bitstreams/test_axlf.py",),
}


def places(module: str) -> list[tuple[str, int]]:
    """(operator, occurrence) of every mutation that the library knows of `module`."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast((ROOT / module).read_text(encoding="utf-8"))))
    found = []
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if not operator.arguments():
            count = sum(len(list(operator().mutation_positions(node))) for node in nodes)
            found += [(name, occurrence) for occurrence in range(count)]
    return found


def mutation_at(module: str, name: str, occurrence: int) -> Mutation:
    """One of `places`."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = (ROOT / module).read_text(encoding="utf-8")
    mutated = mutate_code(code, get_operator(name)(), occurrence)
    title = f"{name.removeprefix('core/')} {occurrence}: {_line(code, mutated)}"
    return Mutation(title, module, code, mutated, MODULES[module])


def _line(code: str, mutated: str) -> str:
    """The first line that differs, as it has become."""
    pairs = itertools.zip_longest(code.splitlines(), mutated.splitlines(), fillvalue="")
    return next((new.strip() for old, new in pairs if old != new), "no difference")


def sampled(count: int, seed: int) -> list[Mutation]:
    """`count` mutations of every module, drawn by `seed`."""
    found = []
    for module in MODULES:
        known = places(module)
        drawn = random.Random(f"{seed} {module}").sample(known, min(count, len(known)))
        found += [mutation_at(module, *place) for place in drawn]
    return found
