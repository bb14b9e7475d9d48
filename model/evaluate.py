"""How good an integer model is: bits a byte on text, event densities, agreement with the float model."""

import math
from dataclasses import dataclass

import numpy as np

from .errors import UserError
from .reference import SITES
from .sequence import SequenceModel
from .weights import IntegerModel


@dataclass(frozen=True)
class Evaluation:
    """Result over `predictions` tokens; `densities` [L, 4] by layer and SITES."""

    predictions: int
    loss: float  # nats a token
    accuracy: float  # share of predictions whose argmax is the next token
    agreement: float | None  # share of predictions whose argmax is the given one
    densities: np.ndarray

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)

    def bits_per_byte(self, token_count: int, byte_count: int) -> float:
        """For a text of `token_count` tokens and `byte_count` bytes."""
        return self.loss * token_count / math.log(2) / byte_count

    def to_json(self) -> dict:
        """Numbers for reports."""
        layers = [dict(zip(SITES, map(float, row.round(4)), strict=True)) for row in self.densities]
        return {
            "predictions": self.predictions,
            "loss": self.loss,
            "perplexity": self.perplexity,
            "accuracy": self.accuracy,
            "agreement": self.agreement,
            "layers": layers,
        }


def evaluate(
    model: IntegerModel,
    logit_scale: float,
    tokens: np.ndarray,
    sequence: int = 256,
    batch: int = 16,
    choices: np.ndarray | None = None,
) -> Evaluation:
    """Predict every token from those before it, in sequences that each start from a new session.

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
    inputs, targets = tokens[:-1], tokens[1:]
    whole = len(inputs) // sequence * sequence
    pieces = [
        inputs[i : min(i + batch * sequence, whole)].reshape(-1, sequence)
        for i in range(0, whole, batch * sequence)
    ]
    if whole < len(inputs):
        pieces.append(inputs[None, whole:])
    loss, done, chosen = 0.0, 0, np.empty(len(inputs), np.int64)
    for piece in pieces:
        for logits in runner.logits(piece):
            rows = slice(done, done + len(logits))
            chosen[rows] = logits.argmax(axis=1)
            real = (logits - logits.max(axis=1, keepdims=True)) * logit_scale
            loss -= float(
                (real[np.arange(len(real)), targets[rows]] - np.log(np.exp(real).sum(axis=1))).sum()
            )
            done += len(logits)
    assert done == len(inputs)
    return Evaluation(
        predictions=done,
        loss=loss / done,
        accuracy=float((chosen == targets).mean()),
        agreement=None if choices is None else float((chosen == choices).mean()),
        densities=runner.densities(),
    )


def weighted_density(densities: np.ndarray, shape) -> float:
    """One density [0..1] out of [L, 4], weighted by the weight bytes behind each site (Q, K, V: three)."""
    square, ffn = shape.width**2, shape.width * shape.ffn
    return float(
        np.average(densities, axis=0) @ np.array([3 * square, square, ffn, ffn]) / (4 * square + 2 * ffn)
    )
