"""The examples of docs/python.md run, from the first to the last, in one namespace."""

import re

import pytest

from tests.benches.places import ROOT

PAGE = ROOT / "docs" / "python.md"


def examples(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(text: str) -> None:
    namespace: dict = {}
    for number, example in enumerate(examples(text)):
        exec(compile(example, f"{PAGE.name}, example {number}", "exec"), namespace)


def test_every_example_runs(capsys):
    text = PAGE.read_text(encoding="utf-8")
    assert len(examples(text)) == text.count("```python") > 8
    run(text)
    assert "day of the month" in capsys.readouterr().out


def test_a_wrong_example_is_found():
    with pytest.raises(AssertionError):
        run("text\n```python\nassert 1 == 1\n```\n\n```python\nassert 1 == 2\n```\n")
