"""The corpus: text on disk, the held-out split, and a SWORD module made here."""

import struct
import zlib
from pathlib import Path

import pytest

from symlight.base.errors import UserError
from symlight.model.training import corpus

CORPUS = [[f"document {n} line {line}" for line in range(1 + n % 40)] for n in range(400)]


def write_sword(folder, testament, blocks):
    """A zText testament: `blocks` are lists of entries (bytes) that share one compressed block."""
    bzs, bzv, bzz = b"", b"", b""
    for number, entries in enumerate(blocks):
        packed = zlib.compress(b"".join(entries))
        bzs += struct.pack("<III", len(bzz), len(packed), sum(map(len, entries)))
        bzz += packed
        offset = 0
        for entry in entries:
            bzv += struct.pack("<IIH", number if entry else 0, offset if entry else 0, len(entry))
            offset += len(entry)
    for ending, content in (("bzs", bzs), ("bzv", bzv), ("bzz", bzz)):
        (folder / f"{testament}.{ending}").write_bytes(content)


def test_text_on_disk_comes_back(tmp_path):
    corpus.write_text(CORPUS, tmp_path / "text")
    assert corpus.read_text(tmp_path / "text") == CORPUS
    assert corpus.byte_count([["ab", "é"], ["c"]]) == 3 + 3 + 2


def test_blank_lines_end_documents(tmp_path):
    (tmp_path / "text").write_bytes(b"\n\n one \r\ntwo\n \t\n\n\nthree\n\n")
    assert corpus.read_text(tmp_path / "text") == [["one", "two"], ["three"]]


def test_split_holds_every_25th_run_out():
    train, heldout = corpus.split(CORPUS, lines=10)
    lines = [line for document in CORPUS for line in document]
    expected = [line for n, line in enumerate(lines) if n // 10 % 25 == 24]
    assert [line for document in heldout for line in document] == expected
    assert sorted(line for document in train + heldout for line in document) == sorted(lines)
    assert all(train) and all(heldout)


def test_split_of_a_short_text_holds_something_out():
    train, heldout = corpus.split([["line"] * 30])
    assert (len(train[0]), sum(map(len, heldout))) == (24, 1)
    with pytest.raises(UserError, match="24 lines is too short"):
        corpus.split([["line"] * 24])


def test_sword_markup_becomes_plain_verses(tmp_path):
    write_sword(
        tmp_path,
        "ot",
        [
            [
                b"",
                b'<milestone type="x-importer"/>',
                b'<div type="front"/>Preface',
                b'<chapter n="1" sID="1"/>',
                b'<w lemma="1">In</w> the <note>a <b>note</b></note>beginning,\n ' + "“God’s”".encode(),
            ],
            [b'a &amp; b<chapter eID="1"/>', b'<title>Two</title><chapter osisID="Gen.2" sID="2"/>', b"c"],
        ],
    )
    write_sword(tmp_path, "nt", [[b'<chapter sID="3"/><title/>d<title>x</title> ' + "—e".encode()]])
    assert corpus.parse_sword(tmp_path) == [['In the beginning, "God\'s"', "a & b"], ["c"], ["d - e"]]


def test_unusable_sources_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="there is no corpus file"):
        corpus.load(tmp_path / "missing.txt", tmp_path)
    (tmp_path / "empty.txt").write_text(" \n\n")
    with pytest.raises(UserError, match="holds no text"):
        corpus.load(tmp_path / "empty.txt", tmp_path)
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="UTF-8"):
        corpus.read_text(tmp_path / "latin1.txt")
    with pytest.raises(UserError, match="no such file or directory"):
        corpus.parse_sword(tmp_path)
    write_sword(tmp_path, "ot", [[b"text"]])
    (tmp_path / "ot.bzz").write_bytes(b"not zlib" * 4)
    with pytest.raises(UserError, match="damaged"):
        corpus.parse_sword(tmp_path)


def test_a_failing_download_is_a_user_error(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'E: Unable to locate package'\nexit 100\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(UserError, match="Unable to locate package; a text file can be given"):
        corpus.load(None, tmp_path)
    program.write_text("#!/bin/sh\nsleep 60\n")
    monkeypatch.setattr(corpus, "DOWNLOAD_SECONDS", 0.3)
    with pytest.raises(UserError, match="did not end within 0.3 s"):
        corpus.load(None, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="`apt-get` is missing here"):
        corpus.load(None, tmp_path)


def test_a_corpus_without_an_end_is_refused():
    with pytest.raises(UserError, match="/dev/zero is a device, not a file"):
        corpus.load(Path("/dev/zero"), Path("/nothing"))
