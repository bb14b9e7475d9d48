"""Text to train and to judge a demonstration model on.

A corpus is a list of documents; a document is a list of lines (of a Bible: chapters of verses). On disk it is
plain UTF-8 text: one line a verse, a blank line after each document. Two sources give it:

* the World English Bible (public domain) out of Debian's package `sword-text-web`, fetched with `apt-get
  download` and unpacked without installing it: `fetch_web_bible`, `parse_sword`;
* any text file: `read_text`.

`load` chooses between them. "World English Bible" is a trademark: a changed text must not be called that.

`split` sets every 25th run of 150 lines apart as held-out text. Needs nothing beyond the standard library.
"""

import html
import os
import re
import signal
import struct
import zlib
from pathlib import Path

from symlight.base import process
from symlight.base.errors import UserError, in_words
from symlight.base.files import read_bounded

PACKAGE = "sword-text-web"
MOST_CORPUS_BYTES = 1 << 32
DOWNLOAD_SECONDS = 300.0
HELDOUT_EVERY = 25  # runs; the last of each 25 is held out
HELDOUT_LINES = 150  # lines in a run

Corpus = list[list[str]]

# The text is English: with these the whole corpus is ASCII, and no vocabulary goes to typography.
_ASCII = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "–": "-",
        "—": " - ",
        "…": "...",
        "\u00a0": " ",
    }
)
# Footnotes and headings are not part of the verse; a chapter or book mark is a tag without text.
_DROPPED = re.compile(r"<(note|title)\b[^>]*?(?:/>|>.*?</\1>)", re.DOTALL)
_CHAPTER_START = re.compile(r"<chapter\b[^>]*\bsID=")
_FRONT_MATTER = re.compile(r'<div\b[^>]*type="(?:front|introduction)"')
_TAG = re.compile(r"<[^>]*>")


def load(path: Path | None, folder: Path) -> Corpus:
    """The text file `path`, or without one the World English Bible, downloaded into `folder`."""
    return read_text(path) if path is not None else parse_sword(fetch_web_bible(folder))


def fetch_web_bible(folder: Path) -> Path:
    """Download and unpack Debian's `sword-text-web` in `folder`; return the directory of its text files.

    A copy already unpacked there is used as it is.
    """
    folder = Path(folder)
    root = folder / "web"
    found = _find_sword(root)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        _run(["apt-get", "download", PACKAGE], folder)
        packages = sorted(folder.glob(f"{PACKAGE}_*.deb"))
        if not packages:
            raise UserError(f"apt-get downloaded no {PACKAGE} package into {folder}")
        _run(["dpkg", "-x", str(packages[-1]), str(root)], folder)
        found = _find_sword(root)
    if found is None:
        raise UserError(f"{root} holds no SWORD text (ot.bzz, nt.bzz): remove it and try again")
    return found


@in_words()
def parse_sword(folder: Path) -> Corpus:
    """Documents (chapters of verses, ASCII) of a SWORD `zText` module: files {ot,nt}.{bzs,bzv,bzz}.

    `bzs` = <u32 offset, size, unpacked size> of every compressed block of `bzz`; `bzv` = <u32 block,
    u32 offset, u16 size> of every verse inside its unpacked block; the text is OSIS XML.
    """
    folder = Path(folder)
    corpus: Corpus = [[]]
    for testament in ("ot", "nt"):
        try:
            blocks, verses, packed = (
                (folder / f"{testament}.{ending}").read_bytes() for ending in ("bzs", "bzv", "bzz")
            )
            texts = [
                zlib.decompress(packed[start : start + size]) if size else b""
                for start, size, _ in struct.iter_unpack("<III", blocks)
            ]
            entries = list(struct.iter_unpack("<IIH", verses))
        except (zlib.error, struct.error) as error:
            raise UserError(f"{folder}/{testament}.* is damaged: {error}") from error
        for block, start, size in entries:
            if not size:
                continue
            markup = texts[block][start : start + size].decode("utf-8", errors="replace")
            if _FRONT_MATTER.search(markup):
                continue
            if _CHAPTER_START.search(markup) and corpus[-1]:
                corpus.append([])
            line = _plain(markup)
            if line:
                corpus[-1].append(line)
    return [document for document in corpus if document]


@in_words()
def read_text(path: Path) -> Corpus:
    """Documents of a plain UTF-8 text file; blank lines end documents."""
    try:
        text = read_bounded(Path(path), MOST_CORPUS_BYTES).decode("utf-8")
    except FileNotFoundError as error:
        raise UserError(f"there is no corpus file {path}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read the corpus file {path} as UTF-8 text: {error}") from error
    documents = [
        [line.strip() for line in part.splitlines() if line.strip()]
        for part in re.split(r"\n[ \t\r]*\n", text)
    ]
    corpus = [document for document in documents if document]
    if not corpus:
        raise UserError(f"the corpus file {path} holds no text")
    return corpus


def write_text(corpus: Corpus, path: Path) -> None:
    """Write `corpus` as plain text which `read_text` gives back."""
    Path(path).write_text("\n\n".join("\n".join(document) for document in corpus) + "\n", encoding="utf-8")


def split(corpus: Corpus, *, every: int = HELDOUT_EVERY, lines: int = HELDOUT_LINES) -> tuple[Corpus, Corpus]:
    """Split into (training, held-out) documents: of each `every` runs of `lines` lines, the last is held out.

    A document that crosses the edge of a run is cut there. A corpus shorter than `every` runs is cut in
    shorter runs, so that some text is always held out.
    """
    total = sum(len(document) for document in corpus)
    if total < every:
        raise UserError(f"a corpus of {total} lines is too short: at least {every} lines are needed")
    lines = min(lines, total // every)
    parts: tuple[Corpus, Corpus] = ([], [])
    position = 0
    for document in corpus:
        previous = None
        for line in document:
            held_out = (position // lines) % every == every - 1
            if held_out != previous:
                parts[held_out].append([])
            parts[held_out][-1].append(line)
            previous = held_out
            position += 1
    return parts


def byte_count(corpus: Corpus) -> int:
    """UTF-8 bytes of the text: every line and one byte for the line or document end after it."""
    return sum(len(line.encode("utf-8")) + 1 for document in corpus for line in document)


def _plain(markup: str) -> str:
    """The words of one OSIS entry: no notes, headings or tags, ASCII punctuation, single blanks."""
    text = html.unescape(_TAG.sub("", _DROPPED.sub(" ", markup))).translate(_ASCII)
    return re.sub(r"\s+", " ", text).strip()


def _find_sword(root: Path) -> Path | None:
    found = sorted(root.glob("**/ot.bzz")) if root.is_dir() else []
    return found[0].parent if found else None


def _run(command: list[str], folder: Path) -> None:
    done = process.run(command, folder, environment=os.environ, seconds=DOWNLOAD_SECONDS)
    if done.status == process.NOT_FOUND:
        raise UserError(f"`{command[0]}` is missing here: give a text file as corpus instead")
    if done.status == -signal.SIGKILL:
        raise UserError(f"`{' '.join(command)}` did not end within {DOWNLOAD_SECONDS:g} s")
    if done.status:
        reason = (done.output.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"`{' '.join(command)}` failed: {reason}; a text file can be given as corpus instead")
