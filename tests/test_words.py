"""The documents use the field's terms: no private words, and the glossary names files that exist."""

import re
from pathlib import Path

import pytest

from tests.benches.places import ROOT

pytestmark = pytest.mark.timeout(60)

RATE = "head|channel|row|column|layer|token|slot|group|second|byte|beat|cycle|pass|element|request|site"
# What a document must not say -> what it says instead.
PRIVATE = {
    r"\bbehind\b": "after (time), with, at",
    r"\b[Ll]ies?\b": "is stored in",
    r"\b[Hh]and-?overs?\b": "turnaround cycles; starts the next request early",
    r"\b(is|are) (told|said|looked at)\b": "the active voice",
    r"\bspeaks?\b": "drives valid",
    r"\bvoid\b": "rejected",
    rf"\b(one|two|[0-9]+|bits|bytes|beats|words|cycles|rows|tokens|times) an? ({RATE})\b": "per",
    r"\bbelongs? to none\b": "outside any operation",
    r"\bcounts? up to\b": "the figure",
    r"\bas far (ahead )?as\b": "ahead by",
    r"\bheld? against\b": "checked against",
}
# Written by tools from the titles of proofs and reports; sample texts of a model are nobody's words.
WRITTEN_BY_TOOLS = ("docs/evidence",)
SAMPLE = re.compile(r"^- \*\*.*", re.MULTILINE)


def documents() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]
    pages += sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in pages if not str(page.relative_to(ROOT)).startswith(WRITTEN_BY_TOOLS)]


def private_words(text: str) -> list[str]:
    found = []
    for pattern, instead in PRIVATE.items():
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: {match[0]!r}: say {instead}")
    return found


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_no_private_word(page):
    text = page.read_text(encoding="utf-8")
    if page.name == "demo-model.md":
        text = SAMPLE.sub("", text)
    assert private_words(text) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "In a resident build it has work in the pass behind a restore only",
        "beta: Q0.16 unsigned, one a head",
        "A hand-over begins before its result is there",
        "parts say that they speak",
        "or the measurement is void",
        "what belongs to none is *control*",
        "K as far ahead as the weight takes to be known",
        "LUTs count up to 71 %",
    ],
)
def test_private_words_are_seen(sentence):
    assert private_words(sentence)


def test_the_glossary_is_sorted_and_its_files_exist():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", (ROOT / "docs/glossary.md").read_text(), re.M)
    terms = [term for term, _ in rows if term not in ("term", "---")]
    assert len(terms) > 40 and terms == sorted(terms, key=str.lower)
    for term, files in rows[1:]:
        for file in re.findall(r"`([^`]+)`", files):
            assert (ROOT / file).exists(), f"{term}: {file}"
