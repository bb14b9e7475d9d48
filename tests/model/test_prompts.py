"""Figures of repetition, and the committed texts of docs/demo-model.md."""

import pytest

from symlight.model.package import load_package
from symlight.model.reference import Reference
from symlight.model.sampling import GREEDY
from symlight.model.training import prompts
from tests.benches.places import ROOT


def test_distinct_counts_over_all_texts_and_repeated_within_each():
    texts = [[1, 2, 1, 2, 1], [1, 2]]
    assert prompts.distinct(texts, 1) == 2 / 7
    assert prompts.distinct(texts, 2) == 2 / 5
    assert prompts.repeated(texts, 2) == pytest.approx(2 / 5)  # of 4 + 1 pairs, two came before
    assert prompts.repeated([[1, 2, 3, 4]], 4) == 0
    assert prompts.distinct([[1]], 2) == prompts.repeated([[1]], 2) == 0


@pytest.mark.parametrize("options", [GREEDY, prompts.SAMPLED])
def test_the_documented_texts_are_what_the_model_writes(options):
    package = load_package(ROOT / "model" / "packages" / "demo")
    page = (ROOT / "docs" / "demo-model.md").read_text(encoding="utf-8")
    reference = Reference(package.model)
    for prompt in (prompts.PROMPTS[0], prompts.PROMPTS[6]):
        tokens = prompts.continuation(reference, package, prompt, options)
        assert prompts.prompt_line(package, prompt, tokens) in page.splitlines()
