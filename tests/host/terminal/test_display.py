"""Whatever stands in a file is shown as it is: no markup, no emoji names, nothing that steers a terminal."""

import hashlib
import io
import json
import shutil
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.printable import printable, printable_json
from symlight.host.library.completion import Token
from symlight.host.terminal.console import ProgressView, TextOutput, Waiting
from symlight.host.terminal.plain import PlainConsole
from symlight.model.package import PackageMeta, save_package

NASTY = "see [/usr/share/doc] [on hold] [bold]x[/bold] :smile: \x1b[31mred\x07 \x9b2J \u202egnp\u2066"
SHOWN = "see [/usr/share/doc] [on hold] [bold]x[/bold] :smile: \\x1b[31mred\\x07 \\x9b2J \\u202egnp\\u2066"


@pytest.fixture
def nasty(tmp_path, package):
    """A package whose texts would do something if anybody let them."""
    path = tmp_path / "my[\u202ex]model"
    meta = PackageMeta(name=NASTY, description=NASTY, provenance={NASTY: [NASTY]})
    save_package(path, package.model, meta, package.tokenizer_bytes)
    return path


def test_a_packages_texts_are_shown(symlight, nasty):
    result = symlight("inspect", nasty)
    assert result.code == 0, result.err
    assert f"name: {SHOWN}" in result.out.replace("\n", " ").replace("  ", " ") or SHOWN in result.out
    for character in "\x1b\x07\x9b\u202e\u2066":
        assert character not in result.out + result.err
    report = symlight("inspect", nasty, "--json")
    assert report.json["name"] == NASTY and report.json["provenance"] == {NASTY: [NASTY]}
    assert "\x9b" not in report.out and "\u202e" not in report.out


def test_a_self_test_of_it_runs(symlight, nasty):
    result = symlight("selftest", "--model", nasty, "--device", "reference")
    shown = result.out + result.err
    assert result.code == 0 and "\x1b[31m" not in shown and "\\x1b[31m" in "".join(shown.split())


def test_text_that_is_no_text_in_a_package_is_refused(symlight, tmp_path, package):
    path = shutil.copytree(package.path, tmp_path / "copy")
    config = json.loads((path / "config.json").read_text())
    raw = json.dumps(config | {"description": "\ud800"}).encode()
    (path / "config.json").write_bytes(raw)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["files"]["config.json"] = {"sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)}
    (path / "manifest.json").write_text(json.dumps(manifest))
    sentence = symlight("inspect", path).error()
    assert "config.json" in sentence and "lone surrogate" in sentence


def console_on(stream: io.StringIO, terminal: bool) -> PlainConsole:
    return PlainConsole(file=stream, force_terminal=terminal, width=300)


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_names_as_they_are(terminal):
    stream = io.StringIO()
    console = console_on(stream, terminal)
    with ProgressView(console) as progress:
        progress(NASTY, 0, 2)
        progress(NASTY, 2, 2)
    waiting = Waiting(console, NASTY)
    waiting.update(NASTY)
    waiting.stop()
    console.print(NASTY, style="dim")
    assert "[/usr/share/doc]" in stream.getvalue() and ":smile:" in stream.getvalue()
    assert not {"\x07", "\x9b", "\u202e"} & set(stream.getvalue()) and "\x1b[31mred" not in stream.getvalue()


def test_generated_characters_steer_no_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, expected in ((Terminal(), "a\\x1bb\n\n"), (io.StringIO(), "a\x1bb\n\n")):
        monkeypatch.setattr(sys, "stdout", stream)
        output = TextOutput(show=True)
        output.push(Token(1, "a\x1bb\n", 0))
        output.finish()
        assert stream.getvalue() == expected


@given(st.text())
def test_escaped_json_is_the_same_value(text):
    line = json.dumps({text: text}, ensure_ascii=False)
    assert json.loads(printable_json(line)) == {text: text}
    printable_json(line).encode()


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_ordinary_text_stays(text):
    assert printable(text) == text
