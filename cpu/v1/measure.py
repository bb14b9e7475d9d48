"""Quality and cost of a V1 model on the engine: prediction of a text, spikes, work and time of a prompt."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from symlight.base.errors import UserError
from symlight.model.v1 import tensors as names

from .abi import PHASES
from .engine import CHUNK, EngineV1

TOP = 5
_PHASE_MATRICES = {  # what a phase reads
    "qkv+tcam": (names.QUERY, names.KEY, names.VALUE, names.TCAM),
    "out": (names.OUT,),
    "up": (names.UP,),
    "down": (names.DOWN,),
}


@dataclass(frozen=True)
class EvaluationV1:
    """Prediction of `predictions` tokens of a text of `tokens` tokens."""

    tokens: int
    predictions: int
    loss: float  # nats a token
    perplexity: float
    bits_per_byte: float | None  # None: the text's bytes are not known
    top1: float  # share of predictions whose likeliest token is the next one
    top5: float

    def to_json(self) -> dict:
        return asdict(self)


def evaluate(
    engine: EngineV1,
    tokens: Sequence[int],
    sequence: int,
    text_bytes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> EvaluationV1:
    """Predict a text in pieces of `sequence` tokens, each from the start; the first of each is not predicted.

    `progress(done, total)` is told of tokens.
    """
    found = np.asarray(tokens, np.int64)
    if len(found) < 2:
        raise UserError(f"{len(found)} tokens hold nothing to predict; give at least 2")
    session, loss, hits, predictions = engine.session(), 0.0, np.zeros(2, np.int64), 0
    for start in range(0, len(found), sequence):
        piece = found[start : start + sequence]
        session.reset()
        for first in range(0, len(piece) - 1, CHUNK):
            part = piece[first : min(first + CHUNK, len(piece) - 1)]
            targets = piece[first + 1 : first + 1 + len(part)]
            logits = engine.run(session, part, wanted=len(part)).astype(np.float64)
            right = logits[np.arange(len(part)), targets]
            most = logits.max(axis=1)
            loss += float((np.log(np.exp(logits - most[:, None]).sum(axis=1)) + most - right).sum())
            rank = (logits > right[:, None]).sum(axis=1)
            hits += (rank < 1).sum(), (rank < TOP).sum()
            predictions += len(part)
            progress(start + first + len(part), len(found))
    mean = loss / predictions
    return EvaluationV1(
        tokens=len(found),
        predictions=predictions,
        loss=mean,
        perplexity=math.exp(min(mean, 700.0)),
        bits_per_byte=None if not text_bytes else mean * len(found) / math.log(2) / text_bytes,
        top1=float(hits[0] / predictions),
        top5=float(hits[1] / predictions),
    )


@dataclass(frozen=True)
class ProfileV1:
    """Spikes, work and time of the passes since `EngineV1.clear`, a position."""

    positions: int
    densities: list[dict[str, float]]  # a layer: share of spikes into tcam and down
    dense_multiply_accumulates: int
    multiply_accumulates: int  # without those that no spike asks for
    matrices: dict[str, dict[str, float]]  # by kind: share of the work that was done, and its weight bytes
    phases: dict[str, dict[str, float | None]]  # by phase: microseconds, and bytes a second of weights

    def to_json(self) -> dict:
        return asdict(self)


def profile(engine: EngineV1) -> ProfileV1:
    """What the engine has counted. Bytes are those that single positions read: chunks share theirs."""
    shape, count = engine.shape, max(engine.positions, 1)
    share = engine.active / count / np.array([shape.width, shape.ffn])  # [layers, 2]
    by_kind = {names.TCAM: float(share[:, 0].mean()), names.DOWN: float(share[:, 1].mean())}
    item = 1 if engine.package.meta.weights == "int8" else 4
    matrices, done, dense = {}, 0.0, 0
    for name, (outputs, inputs) in names.block_matrices(shape).items():
        size = outputs * inputs * shape.layers
        matrices[name] = {"share": by_kind.get(name, 1.0), "bytes": by_kind.get(name, 1.0) * size * item}
        done, dense = done + by_kind.get(name, 1.0) * size, dense + size
    for name, (outputs, inputs) in names.head_matrices(shape).items():
        matrices[name] = {"share": 1.0, "bytes": float(outputs * inputs * item)}
        done, dense = done + outputs * inputs, dense + outputs * inputs
    phases: dict[str, dict[str, float | None]] = {}
    for name, spent in zip(PHASES, engine.nanoseconds, strict=True):
        read = sum(matrices[matrix]["bytes"] for matrix in _PHASE_MATRICES.get(name, ()))
        seconds = float(spent) / 1e9 / count
        phases[name] = {
            "microseconds": seconds * 1e6,
            "bytes_per_second": read / seconds if read and seconds else None,
        }
    return ProfileV1(
        positions=engine.positions,
        densities=[{"tcam": float(row[0]), "down": float(row[1])} for row in share],
        dense_multiply_accumulates=dense,
        multiply_accumulates=round(done),
        matrices=matrices,
        phases=phases,
    )
