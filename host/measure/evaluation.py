"""`symlight eval` of V2 packages: how well a model predicts a text, on any device that gives logits.

Pieces of the text are predicted one after the other, each from a new session. The sums are written to a file
after every piece, so that an interrupted evaluation goes on where it was.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present
from symlight.model.package import Package
from symlight.model.package_folder import sha256
from symlight.model.training.quality_report import float_logits

from ..device.choosing import Logits, RunOptions
from ..device.machine import Machine, Progress, silent
from ..terminal.results import write_json

TOP = 5


@dataclass
class Sums:
    """Sums over the predictions of one model: nats, and how often the next token was first, or among TOP."""

    loss: float = 0.0
    top_1: int = 0
    top_5: int = 0

    def add(self, logits: np.ndarray, targets: np.ndarray) -> None:
        """`logits` [n, V] in nats; ties for a place go to the lower id."""
        rows = np.arange(len(targets))
        real = logits - logits.max(axis=1, keepdims=True)
        self.loss -= float((real[rows, targets] - np.log(np.exp(real).sum(axis=1))).sum())
        own = logits[rows, targets][:, None]
        before = (logits > own).sum(axis=1)
        before += ((logits == own) & (np.arange(logits.shape[1]) < targets[:, None])).sum(axis=1)
        self.top_1 += int((before == 0).sum())
        self.top_5 += int((before < TOP).sum())

    def figures(self, predictions: int, bits: float) -> dict:
        """Figures of a report; `bits` is 1 / ln 2 over the bytes of the predicted text."""
        return {
            "perplexity": math.exp(self.loss / predictions),
            "bits_a_byte": self.loss * bits,
            "top_1": self.top_1 / predictions,
            "top_5": self.top_5 / predictions,
        }


@dataclass
class Evaluation:
    """What is known so far. `identity` says of what: package, text, length of the pieces, float model."""

    identity: dict
    predictions: int = 0  # a multiple of the pieces' length, but at the end
    integer: Sums = field(default_factory=Sums)
    real: Sums | None = None  # of the float model
    agreement: int = 0  # predictions whose largest logit is the same token in both
    bytes: int = 0  # of the tokens that were predicted

    def to_json(self) -> dict:
        """For a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict) -> "Evaluation":
        sums = {name: None if data[name] is None else Sums(**data[name]) for name in ("integer", "real")}
        return cls(**data | sums)

    def figures(self) -> dict:
        """The result."""
        bits = 1 / math.log(2) / self.bytes if self.bytes else math.nan
        found: dict[str, int | float | dict] = {"predictions": self.predictions, "bytes": self.bytes}
        found["integer"] = self.integer.figures(self.predictions, bits)
        if self.real is not None:
            found["float"] = self.real.figures(self.predictions, bits)
            found["greedy_agreement"] = self.agreement / self.predictions
        return found


def identity_of(package: Package, tokens: list[int], sequence: int, checkpoint: Path | None) -> dict:
    """What decides the result."""
    return {
        "package": package.digest,
        "text": hashlib.sha256(np.asarray(tokens, np.int64).tobytes()).hexdigest(),
        "tokens": len(tokens),
        "sequence": sequence,
        "float": None if checkpoint is None else sha256(checkpoint),
    }


def started(file: Path | None, identity: dict, with_float: bool) -> Evaluation:
    """What `file` holds of this very evaluation, or a new one; another one's file is refused."""
    if file is None or not file.exists():
        return Evaluation(identity, real=Sums() if with_float else None)
    try:
        found = Evaluation.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{file} is not the record of an evaluation ({error}); remove it") from error
    if found.identity != identity:
        other = next(name for name in identity if identity[name] != found.identity.get(name))
        raise UserError(f"{file} records an evaluation with another {other}; name another file, or remove it")
    return found


def evaluate(
    machine: Machine,
    package: Package,
    tokens: list[int],
    sequence: int,
    record: Path | None,
    checkpoint: Path | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Predict every token but the first; each piece of `sequence` predictions starts from a new session."""
    scale = package.meta.logit_scale
    if scale is None:
        raise UserError(f"package {package.path} does not say what a unit of its logits means (logit_scale)")
    if len(tokens) < 2:
        raise UserError(f"the text has {len(tokens)} tokens, which leave nothing to predict; give at least 2")
    found = started(record, identity_of(package, tokens, sequence, checkpoint), checkpoint is not None)
    model = None if checkpoint is None else float_logits(checkpoint)
    total = len(tokens) - 1
    while found.predictions < total:
        first = found.predictions
        piece = tokens[first : first + sequence + 1]
        machine.reset()
        logits = present(machine.run(piece, 0, None, options=RunOptions(None, Logits.ALL)).logits)
        targets = np.array(piece[1:])
        found.integer.add(logits * scale, targets)
        if model is not None:
            real = model(np.array(piece[:-1]))
            present(found.real).add(real, targets)
            found.agreement += int((real.argmax(axis=1) == logits.argmax(axis=1)).sum())
        found.bytes += _bytes_of(package, tokens, first, len(targets))
        found.predictions += len(targets)
        if record is not None:
            write_json(record, found.to_json())
        progress("evaluate", found.predictions, total)
    return found


def _bytes_of(package: Package, tokens: list[int], first: int, count: int) -> int:
    """Bytes of the text that the predictions `first` and following stand for."""
    ends = (first + 1, first + 1 + count)
    before, after = (len(package.tokenizer.decode(tokens[first:end]).encode()) for end in ends)
    return after - before
