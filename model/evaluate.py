"""How good an integer model is: bits a byte on text, event densities, agreement with the float model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from symlight.base.errors import UserError

from .reference import SITES
from .sequence import SequenceModel
from .weights import IntegerModel


@dataclass(frozen=True)
class Evaluation:
    """Result over `predictions` tokens; `densities` [L, 4] by layer and SITES, `zero_sums` [L].

    `out_densities` [L] of the input of W_O and `head_densities` of the head's inputs a and g: of event sites
    and, where the package has none there, of inputs that happen to be 0.
    """

    predictions: int
    loss: float  # nats a token
    accuracy: float  # share of predictions whose argmax is the next token
    agreement: float | None  # share of predictions whose argmax is the given one
    densities: np.ndarray
    zero_sums: np.ndarray  # share of attention rows without a positive score
    out_densities: np.ndarray
    head_densities: tuple[float, float]

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)

    def bits_per_byte(self, token_count: int, byte_count: int) -> float:
        """For a text of `token_count` tokens and `byte_count` bytes."""
        return self.loss * token_count / math.log(2) / byte_count

    def to_json(self) -> dict:
        """Numbers for reports."""
        layers = [
            dict(zip((*SITES, "out", "zero_sum"), map(float, row.round(4)), strict=True))
            for row in np.column_stack([self.densities, self.out_densities, self.zero_sums])
        ]
        return {
            "predictions": self.predictions,
            "loss": self.loss,
            "perplexity": self.perplexity,
            "accuracy": self.accuracy,
            "agreement": self.agreement,
            "layers": layers,
            "head": {name: round(share, 4) for name, share in zip("ag", self.head_densities, strict=True)},
        }


def pieces(tokens: np.ndarray, sequence: int = 256, batch: int = 16) -> Iterator[np.ndarray]:
    """Inputs [B, T] that predict every token from those before it, in order; at most `batch` sequences each.

    Every sequence starts from a new session; only the last one may be shorter than `sequence`.
    """
    inputs = tokens[:-1]
    whole = len(inputs) // sequence * sequence
    for i in range(0, whole, batch * sequence):
        yield inputs[i : min(i + batch * sequence, whole)].reshape(-1, sequence)
    if whole < len(inputs):
        yield inputs[None, whole:]


def evaluate(
    model: IntegerModel,
    logit_scale: float,
    tokens: np.ndarray,
    sequence: int = 256,
    batch: int = 16,
    choices: np.ndarray | None = None,
) -> Evaluation:
    """Predict every token from those before it, in the sequences of `pieces`.

    `choices` [len(tokens) - 1]: another model's argmax for each prediction, for `agreement`.
    """
    tokens = np.asarray(tokens, np.int64)
    if len(tokens) < 2:
        raise UserError(f"{len(tokens)} tokens hold nothing to predict; give at least 2")
    if tokens.min() < 0 or tokens.max() >= model.shape.vocab:
        raise UserError(
            f"a token id is outside the vocabulary 0..{model.shape.vocab - 1}: the text has another tokenizer"
        )
    runner = SequenceModel(model)
    targets = tokens[1:]
    loss, done, chosen = 0.0, 0, np.empty(len(targets), np.int64)
    for piece in pieces(tokens, sequence, batch):
        for logits in runner.logits(piece):
            rows = slice(done, done + len(logits))
            chosen[rows] = logits.argmax(axis=1)
            real = (logits - logits.max(axis=1, keepdims=True)) * logit_scale
            loss -= float(
                (real[np.arange(len(real)), targets[rows]] - np.log(np.exp(real).sum(axis=1))).sum()
            )
            done += len(logits)
    assert done == len(targets)
    return Evaluation(
        predictions=done,
        loss=loss / done,
        accuracy=float((chosen == targets).mean()),
        agreement=None if choices is None else float((chosen == choices).mean()),
        densities=runner.densities(),
        zero_sums=runner.zero_sums(),
        out_densities=runner.out_densities(),
        head_densities=runner.head_densities(),
    )


def weighted_density(densities: np.ndarray, shape) -> float:
    """One density [0..1] out of [L, 4], weighted by the weight bytes of each site (Q, K, V: three)."""
    square, ffn = shape.width**2, shape.width * shape.ffn
    return float(
        np.average(densities, axis=0) @ np.array([3 * square, square, ffn, ffn]) / (4 * square + 2 * ffn)
    )
