"""Token shards: a text of any size as token ids on disk, memory-mapped when it is read.

    shards.json         vocab, tokens, names of the shards, size of the held-out text, tokenizer's SHA-256
    tokens-00000.npy    token ids, uint16 [tokens], documents in a row, each ended by </s>; and so on
    heldout.npy         the same of every HELDOUT_EVERY-th document, up to HELDOUT_TOKENS

A sequence never crosses the edge of a shard.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor

from symlight.base.errors import UserError, in_words
from symlight.base.json_file import read_object

ABOUT, HELDOUT = "shards.json", "heldout.npy"
SHARD_TOKENS = 1 << 26
HELDOUT_EVERY, HELDOUT_TOKENS = 200, 1 << 18
DOCUMENT_LINES = 10_000  # a longer document is cut: no text is held in memory as a whole


class Tokens:
    """Token ids in parts, each a memory-mapped or plain array; sequences are gathered by their start."""

    def __init__(self, parts: list[np.ndarray]):
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def starts(self, length: int) -> np.ndarray:
        """How many starts of sequences of `length` tokens each part has, summed: [parts + 1]."""
        return np.concatenate([[0], np.cumsum([max(0, len(part) - length + 1) for part in self.parts])])

    def gather(self, starts: np.ndarray, length: int, bounds: np.ndarray) -> np.ndarray:
        """Token ids int64 [starts, length]; `bounds` of `starts(length)`, starts counted over all parts."""
        part = np.searchsorted(bounds, starts, side="right") - 1
        return np.stack(
            [
                np.asarray(self.parts[p][s - bounds[p] : s - bounds[p] + length], np.int64)
                for p, s in zip(part, starts, strict=True)
            ]
        )


def documents(files: Iterable[Path]) -> Iterator[list[str]]:
    """Documents of UTF-8 text files, a line at a time; blank lines end documents, and so do files."""
    for file in files:
        lines: list[str] = []
        try:
            with open(file, encoding="utf-8") as stream:
                for line in stream:
                    text = line.strip()
                    if text:
                        lines.append(text)
                    if lines and (not text or len(lines) == DOCUMENT_LINES):
                        yield lines
                        lines = []
        except UnicodeDecodeError as error:
            raise UserError(f"cannot read the text file {file} as UTF-8: {error}") from error
        if lines:
            yield lines


class _Writer:
    """Shards while they are filled."""

    def __init__(self, folder: Path, size: int):
        self._folder, self._size = folder, size
        self._waiting: list[np.ndarray] = []
        self._count = 0
        self.names: list[str] = []
        self.tokens = 0

    def add(self, ids: np.ndarray) -> None:
        self._waiting.append(ids)
        self._count += len(ids)
        if self._count >= self._size:
            self.flush()

    def flush(self) -> None:
        if not self._count:
            return
        self.names.append(f"tokens-{len(self.names):05}.npy")
        np.save(self._folder / self.names[-1], np.concatenate(self._waiting))
        self.tokens += self._count
        self._waiting, self._count = [], 0


@in_words()
def write_shards(
    files: list[Path],
    tokenizer: SentencePieceProcessor,
    folder: Path,
    eos: int,
    *,
    shard_tokens: int = SHARD_TOKENS,
    heldout_every: int = HELDOUT_EVERY,
) -> None:
    """Tokenise text files into `folder`; `shards.json` is written last, so a broken attempt is no folder of
    shards."""
    folder.mkdir(parents=True, exist_ok=True)
    writer, heldout, heldout_bytes = _Writer(folder, shard_tokens), [], 0
    heldout_count = 0
    for number, lines in enumerate(documents(files)):
        ids = np.array([*tokenizer.encode("\n".join(lines)), eos], np.uint16)
        if number % heldout_every == heldout_every - 1 and heldout_count < HELDOUT_TOKENS:
            heldout.append(ids)
            heldout_count += len(ids)
            heldout_bytes += sum(len(line.encode()) + 1 for line in lines)
        else:
            writer.add(ids)
    writer.flush()
    if not heldout or not writer.tokens:
        raise UserError(
            f"the text files have fewer than {heldout_every} documents (separated by blank lines), so "
            "nothing would be held out; give more text"
        )
    np.save(folder / HELDOUT, np.concatenate(heldout))
    about = {
        "vocab": tokenizer.vocab_size(),
        "tokens": writer.tokens,
        "shards": writer.names,
        "heldout_bytes": heldout_bytes,
        "tokenizer": hashlib.sha256(tokenizer.serialized_model_proto()).hexdigest(),
    }
    (folder / (ABOUT + ".new")).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (folder / (ABOUT + ".new")).replace(folder / ABOUT)


@in_words()
def read_shards(folder: Path, tokenizer: SentencePieceProcessor) -> tuple[Tokens, np.ndarray, int]:
    """(training tokens, held-out tokens int32, bytes of the held-out text) of a folder of shards."""
    file = folder / ABOUT
    about = read_object(file, "write the shards again")
    try:
        names, size, digest = about["shards"], about["heldout_bytes"], about["tokenizer"]
        parts = [np.load(folder / name, mmap_mode="r") for name in names]
        heldout = np.load(folder / HELDOUT)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise UserError(
            f"{file} does not describe token shards ({error!r}); write the shards again"
        ) from error
    for name, part in zip(names, parts, strict=True):
        if part.ndim != 1 or part.dtype != np.uint16:
            raise UserError(
                f"{folder / name} holds {part.dtype} {list(part.shape)}; uint16 [tokens] is required"
            )
    if digest != hashlib.sha256(tokenizer.serialized_model_proto()).hexdigest():
        raise UserError(
            f"{folder} was written with another tokenizer; give that one, or write the shards again"
        )
    return Tokens(parts), heldout.astype(np.int32), size
