"""Train the tokenizer and the float model on a corpus, and write what the quantiser and the tests read.

`train` writes into one folder:

    tokenizer.model      SentencePiece BPE: 0 <unk>, 1 <s>, 2 </s>, 3 newline, then pieces
    model.safetensors    the float model's state, float32; replaced at every evaluation
    train.json           shape, constants, seed, steps, held-out quality, densities, history
    heldout.txt          held-out text, `corpus.read_text` reads it
    heldout_tokens.npy   its token ids, int32 [tokens]

A document becomes its lines joined by newlines and </s>; a corpus is the documents one after the other. <s>
stands only at position 0 of a session, and may be left out: a quarter of the training sequences start with
it, in front of the beginning of a line, and the others start anywhere.

The learning rate is a function of the share of the budget that is spent, where the budget is wall time or
steps: a busy machine trains less, but always finishes. With `steps` a run can be repeated bit for bit on the
same machine; with `seconds` it cannot.
"""

import json
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from safetensors.torch import save
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor
from torch.nn import functional

from symlight.base.errors import UserError

from ..config import ModelShape, preset
from . import corpus as corpora
from .corpus import Corpus
from .float_model import FloatConstants, FloatModel

UNK, BOS, EOS = 0, 1, 2  # token ids


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train. Exactly one of `seconds` and `steps` is the budget."""

    seconds: float | None = 2700.0  # wall time
    steps: int | None = None  # optimiser steps
    seed: int = 0
    batch: int = 16  # sequences a step
    sequence: int = 256  # tokens a sequence
    bos_share: float = 0.25  # of the sequences that start with <s>
    peak_rate: float = 1e-2  # 2e-2 leaves a quarter of the feed-forward channels without any spike
    final_share: float = 0.03  # of the peak rate, at the end
    warm_up: int = 60  # steps
    weight_decay: float = 0.1  # on matrices only
    clip: float = 1.0  # gradient norm
    evaluate_every: int = 300  # steps

    def __post_init__(self):
        if (self.seconds is None) == (self.steps is None):
            raise ValueError(f"give one budget: seconds {self.seconds} or steps {self.steps}")
        if self.sequence < 2 or self.batch < 1:
            raise ValueError(f"batch {self.batch} x sequence {self.sequence} holds nothing to predict")

    def spent(self, step: int, seconds: float) -> float:
        """Share of the budget, 0..1, that is gone at the start of `step` and after `seconds`."""
        return min(1.0, step / self.steps if self.steps is not None else seconds / self.seconds)

    def rate(self, step: int, spent: float) -> float:
        """Learning rate: linear warm-up over steps, then a cosine over the budget."""
        cosine = self.final_share + (1 - self.final_share) * 0.5 * (1 + math.cos(math.pi * spent))
        return self.peak_rate * min(1.0, (step + 1) / self.warm_up) * cosine


def train_tokenizer(corpus: Corpus, path: Path, vocab: int) -> SentencePieceProcessor:
    """Train a BPE tokenizer of `vocab` pieces on `corpus`, write it to `path` (*.model), and return it."""
    with open(path, "wb") as file:
        try:
            SentencePieceTrainer.train(
                sentence_iterator=(line for document in corpus for line in document),
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


def evaluate(
    model: FloatModel, tokens: np.ndarray, byte_count: int, *, sequence: int = 256, batch: int = 16
) -> dict:
    """Quality on `tokens` (int ids), cut in sequences of `sequence` that each start from a fresh state.

    Gives `bits_per_byte` over `byte_count` bytes of text, `perplexity` a token, `loss` (nats a token) and
    `layers`, the mean densities a layer of `FloatModel.forward`.
    """
    data = torch.from_numpy(tokens.astype(np.int64))
    whole = (len(data) - 1) // sequence * sequence
    inputs = list(data[:whole].view(-1, sequence).split(batch))
    targets = list(data[1 : whole + 1].view(-1, sequence).split(batch))
    if whole < len(data) - 1:
        inputs.append(data[None, whole:-1])
        targets.append(data[None, whole + 1 :])
    total, seen = 0.0, []
    with torch.no_grad(), _precision("highest"):
        for x, y in zip(inputs, targets, strict=True):
            watch: list[dict] = []
            logits = model(x, watch)
            total += float(functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum"))
            seen.append((x.numel(), watch))
    loss = total / (len(data) - 1)
    weight = sum(count for count, _ in seen)
    layers = [
        {
            site: round(sum(count * watch[layer][site] for count, watch in seen) / weight, 4)
            for site in seen[0][1][layer]
        }
        for layer in range(model.shape.layers)
    ]
    return {
        "bits_per_byte": loss * len(data) / math.log(2) / byte_count,
        "perplexity": math.exp(loss),
        "loss": loss,
        "layers": layers,
    }


@dataclass(frozen=True, kw_only=True)
class Data:
    """A corpus as a model of `vocab` tokens sees it."""

    tokenizer: SentencePieceProcessor
    tokens: np.ndarray  # training text, int32 [tokens]
    heldout: np.ndarray  # held-out text, int32 [tokens]
    heldout_bytes: int  # bytes of the held-out text


def prepare(corpus: Corpus, folder: Path, vocab: int) -> Data:
    """Split `corpus`, train its tokenizer, and write tokenizer.model and the held-out files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    text, heldout_text = corpora.split(corpus)
    tokenizer = train_tokenizer(text, folder / "tokenizer.model", vocab)
    data = Data(
        tokenizer=tokenizer,
        tokens=encode(tokenizer, text),
        heldout=encode(tokenizer, heldout_text),
        heldout_bytes=corpora.byte_count(heldout_text),
    )
    corpora.write_text(heldout_text, folder / "heldout.txt")
    np.save(folder / "heldout_tokens.npy", data.heldout)
    return data


def train(
    corpus: Corpus,
    folder: Path,
    *,
    shape: ModelShape | None = None,
    constants: FloatConstants | None = None,
    training: TrainingConfig | None = None,
    console: Console | None = None,
) -> dict:
    """Train a model on `corpus`, write the files named above into `folder`, return train.json's content.

    By default `shape` is the demonstration model's and the budget is 45 minutes. Uses as many threads as
    torch is set to. Progress and one line an evaluation go to `console`.
    """
    shape, constants = shape or preset("demo"), constants or FloatConstants()
    training, console, folder = training or TrainingConfig(), console or Console(), Path(folder)
    data = prepare(corpus, folder, shape.vocab)
    if len(data.tokens) <= training.sequence:
        raise UserError(f"the corpus has {len(data.tokens)} tokens; more than {training.sequence} are needed")
    torch.manual_seed(training.seed)
    model = FloatModel(shape, constants)
    report = {
        "shape": shape.to_json(),
        "constants": constants.to_json(),
        "training": asdict(training),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "train_tokens": len(data.tokens),
        "heldout_tokens": len(data.heldout),
        "heldout_bytes": data.heldout_bytes,
        "history": [],
    }
    console.print(
        f"{report['parameters']:,} parameters; {len(data.tokens):,} training tokens; held out: "
        f"{len(data.heldout):,} tokens, {data.heldout_bytes:,} bytes",
        highlight=False,
    )
    columns = BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("training", total=1.0)
        for step, seconds, spent, train_loss in _fit(model, data, training):
            progress.update(bar, completed=spent, description=f"step {step}, loss {train_loss:.3f}")
            if spent >= 1.0 or step % training.evaluate_every == 0:
                result = evaluate(model, data.heldout, data.heldout_bytes, sequence=training.sequence)
                result.update(step=step, seconds=round(seconds, 1), train_loss=train_loss)
                _record(folder, model, report, result, training)
                console.print(_line(result), highlight=False, soft_wrap=True)
    return report


def _fit(model: FloatModel, data: Data, training: TrainingConfig) -> Iterator[tuple]:
    """Train until the budget is spent; gives (steps, seconds, share spent, mean recent loss) a step."""
    batches = _Batches(data, training)
    optimizer = torch.optim.AdamW(_groups(model, training.weight_decay), betas=(0.9, 0.98), eps=1e-9)
    start, step, spent, recent = time.monotonic(), 0, 0.0, deque(maxlen=training.evaluate_every)
    while spent < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = training.rate(step, spent)
        x, y = batches.draw()
        with _precision("medium"):
            loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        step += 1
        recent.append(loss.item())
        seconds = time.monotonic() - start
        spent = training.spent(step, seconds)
        yield step, seconds, spent, sum(recent) / len(recent)


def sample(
    model: FloatModel,
    tokenizer: SentencePieceProcessor,
    prompt: str,
    *,
    count: int = 64,
    temperature: float = 0.7,
    seed: int = 0,
) -> str:
    """The prompt and up to `count` sampled tokens after it as text; ends at </s>. temperature 0 = greedy."""
    ids = [BOS] + tokenizer.encode(prompt)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad(), _precision("highest"):
        for _ in range(count):
            logits = model(torch.tensor([ids]))[0, -1]
            if temperature:
                choice = torch.multinomial((logits / temperature).softmax(0), 1, generator=generator)
            else:
                choice = logits.argmax()
            ids.append(int(choice))
            if ids[-1] == EOS:
                break
    return tokenizer.decode([token for token in ids if token not in (BOS, EOS)])


class _Batches:
    """Random training sequences out of one row of tokens."""

    def __init__(self, data: Data, config: TrainingConfig):
        tokens = data.tokens
        self._tokens = torch.from_numpy(tokens.astype(np.int64))
        self._config = config
        self._random = torch.Generator().manual_seed(config.seed + 1)
        self._last = len(tokens) - config.sequence - 1
        ends = (tokens == EOS) | (tokens == data.tokenizer.piece_to_id("\n"))
        starts = np.concatenate([[0], np.flatnonzero(ends) + 1])
        self._line_starts = torch.from_numpy(starts[starts <= self._last])

    def draw(self) -> tuple[Tensor, Tensor]:
        """(inputs, targets), token ids [batch, sequence]."""
        config = self._config
        spread = torch.arange(config.sequence)
        first = torch.randint(self._last + 1, (config.batch,), generator=self._random)
        line = torch.randint(len(self._line_starts), (config.batch,), generator=self._random)
        line = self._line_starts[line]
        with_bos = torch.rand(config.batch, generator=self._random) < config.bos_share
        # With <s> the sequence holds one token less: the targets are the line's tokens.
        first = torch.where(with_bos, line - 1, first)[:, None]
        inputs = self._tokens[(first + spread).clamp(min=0)]
        inputs[with_bos, 0] = BOS
        return inputs, self._tokens[first + 1 + spread]


def _groups(model: FloatModel, weight_decay: float) -> list[dict]:
    matrices, others = ([p for p in model.parameters() if (p.ndim >= 2) == many] for many in (True, False))
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def _record(folder: Path, model: FloatModel, report: dict, result: dict, training: TrainingConfig) -> None:
    """Write the checkpoint and train.json so that a reader never sees half a file."""
    step, seconds = result["step"], result["seconds"]
    report["history"].append({key: round(value, 4) for key, value in result.items() if key != "layers"})
    report.update(
        steps=step,
        seconds=seconds,
        tokens_seen=step * training.batch * training.sequence,
        heldout_bits_per_byte=round(result["bits_per_byte"], 4),
        heldout_perplexity=round(result["perplexity"], 3),
        layers=result["layers"],
        decay=[block.tcam.decay_raw.sigmoid().tolist() for block in model.blocks],
        gate=[block.tcam.attn_gate.sigmoid().item() for block in model.blocks],
    )
    # One entry: safetensors writes several in random order, and equal trainings are to give equal files.
    about = json.dumps({name: report[name] for name in ("shape", "constants")})
    (folder / "model.safetensors.new").write_bytes(save(model.state_dict(), {"model": about}))
    (folder / "train.json.new").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name in ("model.safetensors", "train.json"):
        (folder / f"{name}.new").replace(folder / name)


def _line(result: dict) -> str:
    columns = [
        site + " " + "/".join(f"{layer[site]:.3f}".lstrip("0") for layer in result["layers"])
        for site in result["layers"][0]
    ]
    return (
        f"step {result['step']} {result['seconds']:.0f} s: {result['bits_per_byte']:.4f} bits/byte, "
        f"perplexity {result['perplexity']:.2f}, train {result['train_loss']:.3f}, "
        f"held out {result['loss']:.3f}; density {', '.join(columns)}"
    )


@contextmanager
def _precision(name: str):
    """Precision of float32 matrix products inside the block: 'medium' multiplies in bfloat16."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
