"""Runs mutations and adds up what was seen."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from .mutation import Mutation, Stale
from .tree import Outcome, Tree

STALE = "stale"  # does not apply any more: counts as not seen


@dataclass(frozen=True)
class Result:
    """What became of one mutation."""

    name: str
    file: str
    tests: tuple[str, ...]
    outcome: str
    seconds: float

    @property
    def seen(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.TIME)

    def to_json(self) -> dict:
        return asdict(self) | {"tests": list(self.tests)}


def check_clean(tree: Tree, mutations: Iterable[Mutation], say: Callable[[str], None]) -> None:
    """All tests of `mutations` pass on the unchanged tree; otherwise a failure would prove nothing."""
    for tests in dict.fromkeys(mutation.tests for mutation in mutations):
        outcome, seconds, output = tree.run(tests)
        say(f"unchanged: {' '.join(tests)}: {outcome}, {seconds:.0f} s")
        if outcome is not Outcome.PASSED:
            raise RuntimeError(f"the tests fail without a mutation: {' '.join(tests)}\n{output}")


def run_mutations(tree: Tree, mutations: Iterable[Mutation], say: Callable[[str], None]) -> list[Result]:
    """Every mutation by itself; the tree is unchanged afterwards."""
    results = []
    for mutation in mutations:
        try:
            before = mutation.apply(tree.root)
        except Stale as error:
            say(str(error))
            results.append(Result(mutation.name, mutation.file, mutation.tests, STALE, 0.0))
            continue
        try:
            outcome, seconds, _ = tree.run(mutation.tests)
        finally:
            (tree.root / mutation.file).write_text(before, encoding="utf-8")
        results.append(Result(mutation.name, mutation.file, mutation.tests, str(outcome), round(seconds, 1)))
        say(f"{mutation.name}: {outcome}, {seconds:.0f} s")
    return results


def score(results: list[Result]) -> dict:
    """Numbers of seen mutations, all together and by room (the first folder of the file)."""
    rooms: dict[str, list[bool]] = {}
    for result in results:
        rooms.setdefault(result.file.partition("/")[0], []).append(result.seen)
    return {
        "mutants": len(results),
        "seen": sum(result.seen for result in results),
        "rooms": {room: {"mutants": len(seen), "seen": sum(seen)} for room, seen in sorted(rooms.items())},
        "not_seen": [result.name for result in results if not result.seen],
    }
