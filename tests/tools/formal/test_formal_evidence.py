"""docs/evidence/formal.json and formal.md belong to the proofs of the catalogue; the comparison can fail."""

import copy
import json

import pytest

from symlight.tools.formal import catalogue
from symlight.tools.formal import evidence as formal
from symlight.tools.formal.proofs_argmax import LargestLogit
from symlight.tools.formal.proofs_queue import ShallowQueue
from symlight.tools.formal.prover import stated
from tests.benches.places import EVIDENCE

SMALL = [ShallowQueue, LargestLogit]


def result(proof) -> dict:
    """A row as a run writes it when everything holds."""
    design = proof()
    _, claims, covers = stated(design)
    return formal.outline(proof, design, claims, covers) | {
        "commit": "0" * 12,
        "runs": [
            {"method": method, "depth": depth, "passed": True, "failed": [], "seconds": 0.1}
            for method, depth in formal.depths(proof).items()
        ],
        "broken": [
            {"wrong": wrong, "claim": claim, "found": True, "within": proof.broken_bmc}
            for wrong, (_, claim) in proof.broken.items()
        ],
    }


@pytest.fixture(scope="module")
def good() -> dict:
    return {"tools": {"solver": "1.0"}, "proofs": [result(proof) for proof in SMALL]}


def test_what_a_run_writes_agrees(good):
    assert formal.disagreements(good, formal.page(good), SMALL) == []


def _first(evidence: dict) -> dict:
    return evidence["proofs"][0]


CHANGES = {
    "a proof without a row": (lambda e: e["proofs"].pop(), "LargestLogit: no row"),
    "a row without a proof": (lambda e: _first(e).update(name="Gone"), "Gone: no such proof"),
    "a row twice": (lambda e: e["proofs"].append(_first(e)), "two rows"),
    "another title": (lambda e: _first(e).update(title="Queue"), "title is"),
    "another component": (lambda e: _first(e).update(design="hw.top"), "design is"),
    "a claim is missing": (lambda e: _first(e)["claims"].pop(), "claims is"),
    "another claim": (lambda e: _first(e)["claims"].append("all is well"), "claims is"),
    "a cover is missing": (lambda e: _first(e)["covers"].pop(), "covers is"),
    "proved for longer": (lambda e: _first(e).update(proved="for two runs"), "proved is"),
    "a shallower run": (lambda e: _first(e)["runs"][0].update(depth=2), "other runs"),
    "no induction": (lambda e: _first(e)["runs"].pop(1), "other runs"),
    "a broken design is missing": (lambda e: _first(e)["broken"].pop(), "other broken designs"),
    "a broken design by another name": (
        lambda e: _first(e)["broken"][0].update(wrong="sleeps"),
        "other broken designs",
    ),
    "a broken design for another claim": (
        lambda e: _first(e)["broken"][0].update(claim="sleeps"),
        "other broken designs",
    ),
    "a broken design that is not found": (
        lambda e: _first(e)["broken"][0].update(found=False),
        "does not hold",
    ),
    "a run that failed": (lambda e: _first(e)["runs"][1].update(passed=False), "does not hold"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_the_evidence_is_seen(good, what):
    change, sentence = CHANGES[what]
    evidence = copy.deepcopy(good)
    change(evidence)
    assert any(sentence in line for line in formal.disagreements(evidence, formal.page(evidence), SMALL))


def test_a_page_written_by_hand_is_seen(good):
    page = formal.page(good).replace("proved for ever", "proved for ever and ever", 1)
    assert formal.disagreements(good, page, SMALL) == ["formal.md is not the page of formal.json"]


@pytest.mark.timeout(120)
def test_the_committed_evidence_is_of_these_proofs():
    evidence = json.loads((EVIDENCE / "formal.json").read_text())
    found = formal.disagreements(evidence, (EVIDENCE / "formal.md").read_text(), catalogue.PROOFS)
    assert found == [], "run `make formal`"
