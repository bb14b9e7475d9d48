"""Text that a person gives: bytes that are no text, byte order marks, characters that the model lacks."""

import os
import subprocess
import sys

import pytest

from symlight.host.terminal.prompts import unknown_sentence
from tests.benches.host.host_bench import give_lines

ONE = ("--max-new-tokens", 1)


def flat(text: str) -> str:
    return " ".join(text.split())


def program(*arguments: str | bytes, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess:
    """The installed command in an environment of its own."""
    code = "import sys; from symlight.host.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=stdin,
        capture_output=True,
        env=os.environ | environment,
        timeout=120,
    )


def test_a_prompt_that_is_no_text_is_refused(generate, tmp_path, monkeypatch):
    assert generate("--prompt", "abc\udce6", *ONE).error() == (
        "the prompt is not UTF-8 text: byte 0xe6 at offset 3 (unexpected end of data); convert it to UTF-8"
    )
    assert "lone surrogate" in generate("--prompt", "\ud800", *ONE).error()
    file = tmp_path / "prompt"
    file.write_bytes(b"abc\xe6 ")
    assert "prompt is not UTF-8 text: byte 0xe6 at offset 3" in generate("--prompt-file", file, *ONE).error()
    give_lines(monkeypatch, [b"abc\xe6"])
    assert "standard input is not UTF-8" in generate("--prompt-file", "-", *ONE).error()


def test_a_prompt_without_an_end_is_refused(generate):
    assert "/dev/zero has more than" in generate("--prompt-file", "/dev/zero", *ONE).error()


def test_a_byte_order_mark_is_no_part_of_a_prompt(generate, tmp_path, monkeypatch):
    plain = generate("--prompt", "the word", *ONE, "--json").json
    file = tmp_path / "prompt"
    file.write_bytes(b"\xef\xbb\xbfthe word")
    give_lines(monkeypatch, [])
    for arguments in (("--prompt-file", file), ("--prompt", "\ufeffthe word")):
        report = generate(*arguments, *ONE, "--json").json
        assert report["prompt_tokens"] == plain["prompt_tokens"] and report["unknown_characters"] == 0


def test_a_file_is_read_as_it_is(generate, tmp_path, package):
    file = tmp_path / "prompt"
    file.write_bytes(b"the word\n")
    report = generate("--prompt-file", file, *ONE, "--json").json
    assert package.tokenizer.decode(report["prompt_tokens"]) == "the word\n"


def test_unknown_characters_are_named(generate):
    result = generate("--prompt", "the 日本語", *ONE, "--json")
    assert result.json["unknown_characters"] == 3
    said = flat(result.err)
    assert said.startswith("symlight: 3 characters of the text are unknown to the model's tokenizer, which ")
    assert said.split(" in its place: ")[1].startswith("日本語")
    assert "unknown" not in generate("--prompt", "the word", *ONE).err


def test_many_unknown_characters_are_counted():
    assert unknown_sentence("") is None
    assert unknown_sentence("日").startswith("1 character of the text is unknown")
    assert unknown_sentence("日" * 100).endswith(": " + "日" * 20 + "...")


def test_chat_goes_on_after_lines_that_are_no_text(symlight, monkeypatch, package_path):
    lines = [b"abc\xe6", "日", "/load /dev/null", "/load \0", "/save ~nobody-of-that-name/x", "the word\r"]
    give_lines(monkeypatch, lines)
    result = symlight("chat", "--model", package_path, "--device", "reference", "--max-new-tokens", 2)
    assert result.code == 0
    said = flat(result.err)
    assert "the line is not UTF-8 text: byte 0xe6 at offset 3" in said
    assert "1 character of the text is unknown" in said
    assert "/dev/null is damaged" in said and "NUL" in said and "give the whole path" in said
    assert said.count("prompt tokens") == 2  # two turns: the unknown character, and the word


@pytest.mark.parametrize("utf8_mode", ["0", "1"])
def test_utf8_in_a_locale_without_it(package_path, utf8_mode):
    """The bytes of é are é, whatever the locale; and results in such a locale are JSON still."""
    common = ("generate", "--model", package_path, "--device", "reference", "--max-new-tokens", "1", "--json")
    result = program(*common, "--prompt", "é".encode(), LC_ALL="POSIX", PYTHONUTF8=utf8_mode)
    assert result.returncode == 0, result.stderr
    assert b'"unknown_characters": 1,' in result.stdout and b"Traceback" not in result.stderr
    result = program(*common, "--prompt", b"abc\xe6", LC_ALL="POSIX", PYTHONUTF8=utf8_mode)
    assert result.returncode == 2 and b"0xe6 at offset 3" in result.stderr
    assert b"Traceback" not in result.stderr
