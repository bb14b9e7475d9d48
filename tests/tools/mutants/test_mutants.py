"""Mutation testing: the runner sees what fails and what does not; in `slow`, the lists apply and a sample of
them is seen."""

import json
import random
from dataclasses import replace

import pytest

from symlight.tools.mutants.modules import mutation_at, places, sampled
from symlight.tools.mutants.mutation import HARDWARE, HOST, Mutation, Stale, listed
from symlight.tools.mutants.score import STALE, Result, check_clean, run_mutations, score
from symlight.tools.mutants.tree import ROOT, Outcome, copied
from tests.benches.places import EVIDENCE

pytestmark = pytest.mark.timeout(120)
LISTED = [one for name in (*HARDWARE, *HOST) for one in listed(name)]
SAMPLE = 6  # of the listed mutations, in `slow`
TINY = """
from symlight.model.config import MAX_POSITION
def test_limit():
    assert MAX_POSITION == 1 << 20
"""
LIMIT = Mutation(
    "limit", "model/config.py", "MAX_POSITION = 1 << 20", "MAX_POSITION = 1 << 21", ("tests/test_tiny.py",)
)


def quiet(text: str) -> None:
    """Nobody listens."""


@pytest.fixture(scope="module")
def tree():
    """A copy with one small test of its own."""
    with copied() as tree:
        (tree.root / "tests" / "test_tiny.py").write_text(TINY)
        yield tree


def test_a_mutation_is_seen_and_undone(tree):
    original = (ROOT / LIMIT.file).read_text()
    check_clean(tree, [LIMIT], quiet)
    (result,) = run_mutations(tree, [LIMIT], quiet)
    assert result.seen and result.outcome == Outcome.FAILED
    assert (tree.root / LIMIT.file).read_text() == (ROOT / LIMIT.file).read_text() == original
    check_clean(tree, [LIMIT], quiet)


def test_a_mutation_that_changes_nothing_survives(tree):
    harmless = replace(LIMIT, new="MAX_POSITION = 2 << 19")
    assert [one.outcome for one in run_mutations(tree, [harmless], quiet)] == [Outcome.PASSED]


def test_tests_that_fail_anyway_prove_nothing(tree):
    file = tree.root / "tests" / "test_broken.py"
    file.write_text("def test_it():\n    assert False\n")
    with pytest.raises(RuntimeError, match="fail without a mutation"):
        check_clean(tree, [replace(LIMIT, tests=("tests/test_broken.py",))], quiet)
    with pytest.raises(RuntimeError, match="ran no test"):
        tree.run(["tests/test_no_such_file.py"])


def test_a_mutant_that_hangs_is_seen(tree):
    file = tree.root / "tests" / "test_hang.py"
    file.write_text("import time\ndef test_it():\n    time.sleep(100)\n")
    assert tree.run(["tests/test_hang.py"], seconds=2)[0] is Outcome.TIME


def test_stale_mutations_count_as_not_seen(tree):
    stale = replace(LIMIT, name="stale", old="no such line")
    with pytest.raises(Stale, match="model/config.py .* stale 0 times"):
        stale.apply(tree.root)
    results = run_mutations(tree, [LIMIT, stale], quiet)
    assert results[1].outcome == STALE
    found = score(results)
    assert (found["mutants"], found["seen"], found["not_seen"]) == (2, 1, ["stale"])
    assert found["rooms"] == {"model": {"mutants": 2, "seen": 1}}


def test_the_library_mutates_whole_modules(monkeypatch):
    pytest.importorskip("cosmic_ray", reason="needs the extra `mutants`")
    known = places("host/bench/energy.py")
    assert len(known) > 50 and len(set(known)) == len(known)
    one = mutation_at("host/bench/energy.py", *known[7])
    assert one.old != one.new and one.old == (ROOT / one.file).read_text()
    compile(one.new, one.file, "exec")
    monkeypatch.setattr("symlight.tools.mutants.modules.MODULES", {one.file: one.tests})
    names = [one.name for one in sampled(2, seed=4)]
    assert len(names) == 2 and names == [one.name for one in sampled(2, seed=4)]
    assert names != [one.name for one in sampled(2, seed=5)]


@pytest.mark.slow
def test_every_listed_mutation_applies():
    names = [(one.file, one.name) for one in LISTED]
    assert len(set(names)) == len(names)
    for one in LISTED:
        assert (ROOT / one.file).read_text().count(one.old) == 1, f"{one.file}: {one.name} is stale"
        assert one.old != one.new
        for test in one.tests:
            assert (ROOT / test.partition("::")[0]).exists(), f"{one.name}: {test} is not there"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_sample_of_the_listed_mutations_is_seen():
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chosen = random.Random(seed).sample(LISTED, SAMPLE)
    with copied() as tree:
        check_clean(tree, chosen, print)
        results = run_mutations(tree, chosen, print)
    assert score(results)["not_seen"] == []


def test_the_committed_score_is_that_of_its_results():
    """docs/evidence/mutants.json, and the sentence of the verification plan."""
    content = json.loads((EVIDENCE / "mutants.json").read_text())
    results = [Result(**one | {"tests": tuple(one["tests"])}) for one in content["results"]]
    found = score(results)
    assert {name: content[name] for name in found} == found
    plan = (ROOT / "docs" / "verification-plan.md").read_text()
    assert f"{found['seen']} of {found['mutants']} mutations are seen" in plan
