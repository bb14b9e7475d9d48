"""What training reads: tokenizer, training sequences, held-out text."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

from symlight.base.errors import UserError
from symlight.base.optional import present

from . import corpus as corpora
from .corpus import Corpus
from .settings import TrainingConfig
from .shards import ABOUT, Tokens, documents, read_shards, write_shards

UNK, BOS, EOS = 0, 1, 2  # token ids
TOKENIZER = "tokenizer.model"
TOKENIZER_LINES = 1_000_000  # of a large text, that a tokenizer is trained on


def train_tokenizer(lines: Iterable[str], path: Path, vocab: int) -> SentencePieceProcessor:
    """Train a BPE tokenizer of `vocab` pieces, write it to `path` (*.model), and return it."""
    with open(path, "wb") as file:
        try:
            SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=file,
                model_type="bpe",
                vocab_size=vocab,
                character_coverage=1.0,
                normalization_rule_name="identity",
                add_dummy_prefix=False,
                remove_extra_whitespaces=False,
                user_defined_symbols=["\n"],
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                pad_id=-1,
                num_threads=1,
                minloglevel=1,
                max_sentence_length=1 << 16,
            )
        except RuntimeError as error:
            raise UserError(f"the corpus does not give a tokenizer of {vocab} pieces: {error}") from error
    return SentencePieceProcessor(model_file=str(path))


def encode(tokenizer: SentencePieceProcessor, corpus: Corpus) -> np.ndarray:
    """Token ids (int32) of all documents in a row, each ended by </s>."""
    ids = [tokenizer.encode("\n".join(document)) + [EOS] for document in corpus]
    return np.array([token for document in ids for token in document], dtype=np.int32)


@dataclass(frozen=True, kw_only=True)
class Data:
    """A corpus as a model of `vocab` tokens sees it."""

    tokenizer: SentencePieceProcessor
    tokens: Tokens  # training text
    heldout: np.ndarray  # held-out text, int32 [tokens]
    heldout_bytes: int  # bytes of the held-out text


def _given(file: Path | None, folder: Path, vocab: int) -> SentencePieceProcessor | None:
    """A tokenizer that is there already, copied into `folder`."""
    if file is None:
        return None
    try:
        content = Path(file).read_bytes()
        tokenizer = SentencePieceProcessor(model_proto=content)
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"the tokenizer {file} cannot be read ({error}); give a SentencePiece model"
        ) from error
    if tokenizer.vocab_size() > vocab:
        raise UserError(
            f"the tokenizer {file} has {tokenizer.vocab_size()} pieces, the shape only {vocab} rows"
        )
    if (tokenizer.bos_id(), tokenizer.eos_id()) != (BOS, EOS):
        raise UserError(f"the tokenizer {file} does not have <s> = {BOS} and </s> = {EOS}; train one here")
    (folder / TOKENIZER).write_bytes(content)
    return SentencePieceProcessor(model_file=str(folder / TOKENIZER))


def prepare(corpus: Corpus, folder: Path, vocab: int, tokenizer_file: Path | None = None) -> Data:
    """Split `corpus`, train its tokenizer unless one is given, and write tokenizer.model and the held-out
    files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    text, heldout_text = corpora.split(corpus)
    tokenizer = _given(tokenizer_file, folder, vocab)
    if tokenizer is None:
        lines = (line for document in text for line in document)
        tokenizer = train_tokenizer(lines, folder / TOKENIZER, vocab)
    data = Data(
        tokenizer=tokenizer,
        tokens=Tokens([encode(tokenizer, text)]),
        heldout=encode(tokenizer, heldout_text),
        heldout_bytes=corpora.byte_count(heldout_text),
    )
    corpora.write_text(heldout_text, folder / "heldout.txt")
    np.save(folder / "heldout_tokens.npy", data.heldout)
    return data


def prepare_large(paths: list[Path], folder: Path, vocab: int, tokenizer_file: Path | None = None) -> Data:
    """Text files of any size, or one folder of token shards. Text is tokenised once, into `folder`/shards."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if not path.exists():
            raise UserError(f"there is no text or folder of shards {path}")
    if len(paths) == 1 and (paths[0] / ABOUT).is_file():
        shards = paths[0]
        tokenizer = _given(tokenizer_file or shards / TOKENIZER, folder, vocab)
    else:
        shards = folder / "shards"
        tokenizer = _given(tokenizer_file, folder, vocab)
        there = folder / TOKENIZER
        if tokenizer is None and (shards / ABOUT).is_file():
            tokenizer = SentencePieceProcessor(model_file=str(there))
        if tokenizer is None:
            lines = (line for document in documents(paths) for line in document)
            tokenizer = train_tokenizer(islice(lines, TOKENIZER_LINES), there, vocab)
        if not (shards / ABOUT).is_file():
            write_shards(paths, tokenizer, shards, EOS)
            (shards / TOKENIZER).write_bytes(there.read_bytes())
    tokenizer = present(tokenizer)
    tokens, heldout, size = read_shards(shards, tokenizer)
    np.save(folder / "heldout_tokens.npy", heldout)
    return Data(tokenizer=tokenizer, tokens=tokens, heldout=heldout, heldout_bytes=size)


class Batches:
    """Random training sequences. Every process draws with a seed of its own."""

    def __init__(self, data: Data, config: TrainingConfig, rank: int = 0):
        self._tokens, self._config = data.tokens, config
        self._bounds = data.tokens.starts(config.sequence + 1)
        if not self._bounds[-1]:
            raise UserError(
                f"the corpus has {len(data.tokens)} tokens; more than {config.sequence} in a row are needed"
            )
        self._newline = data.tokenizer.piece_to_id("\n")
        self.random = torch.Generator().manual_seed(config.seed + 1 + 1000 * rank)

    def draw(self) -> tuple[Tensor, Tensor]:
        """(inputs, targets), token ids [batch, sequence]."""
        config = self._config
        starts = torch.randint(int(self._bounds[-1]), (config.batch,), generator=self.random).numpy()
        with_bos = torch.rand(config.batch, generator=self.random) < config.bos_share
        rows = self._tokens.gather(starts, config.sequence + 1, self._bounds)
        for index in torch.nonzero(with_bos).flatten().tolist():
            rows[index] = self._from_line(int(starts[index]), rows[index])
        inputs, targets = torch.from_numpy(rows[:, :-1]), torch.from_numpy(rows[:, 1:])
        return inputs, targets

    def _from_line(self, start: int, row: np.ndarray) -> np.ndarray:
        """<s> and the tokens from the next beginning of a line on; the row as it is if none is near."""
        ends = np.flatnonzero((row == EOS) | (row == self._newline))
        for end in ends:
            first = start + int(end) + 1
            part = np.searchsorted(self._bounds, start, side="right") - 1
            if first < self._bounds[part + 1]:
                line = self._tokens.gather(np.array([first]), len(row) - 1, self._bounds)[0]
                return np.concatenate([[BOS], line])
        return row
