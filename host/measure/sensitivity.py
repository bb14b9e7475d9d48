"""What the loss gains when inputs are dropped: by matrix and by layer ("Event-driven LM sparsity", Figure 1).

At every position the smaller part of a matrix's nonzero inputs is forced to 0. What that costs is the loss
increase over the share of executed multiply-accumulates that it saves: a matrix or a layer where this is
small is the place to look for sparsity. Everything runs on the integers of a package.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from symlight.base.errors import UserError
from symlight.model.evaluate import pieces
from symlight.model.package import Package
from symlight.model.sequence import SequenceModel

from ..device.machine import Progress, silent

BLOCK_MATRICES = ("qkv", "decay", "out", "up", "down")
HEAD_MATRICES = ("prior", "head")


def largest(x: np.ndarray, keep: float) -> np.ndarray:
    """x [..., inputs] with only the `keep` share of the nonzero elements of each row, rounded up: the largest
    by magnitude; equal ones in order."""
    flat = x.reshape(-1, x.shape[-1])
    count = np.ceil(np.count_nonzero(flat, axis=1) * keep).astype(np.int64)
    order = np.argsort(-np.abs(flat), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(flat.shape[1])[None, :], axis=1)
    return np.where(rank < count[:, None], flat, 0).reshape(x.shape)


class _Matrix:
    """A matrix that counts its work, and drops inputs while `keep` is below 1."""

    def __init__(self, matrix: Callable[[np.ndarray], np.ndarray], name: str, layer: int | None):
        self._matrix, self.name, self.layer = matrix, name, layer
        self.keep, self.executed = 1.0, 0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if self.keep < 1:
            x = largest(x, self.keep)
        y = self._matrix(x)
        self.executed += int(np.count_nonzero(x)) * y.shape[-1]
        return y


@dataclass(frozen=True)
class Cost:
    """Of dropping inputs in one place.

    `saved`: share of all executed multiply-accumulates of the model; `loss_increase` in nats a token;
    `cost`: increase over saved share, None where nothing is saved.
    """

    place: str
    saved: float
    loss_increase: float

    @property
    def cost(self) -> float | None:
        return self.loss_increase / self.saved if self.saved > 0 else None

    def to_json(self) -> dict:
        return {
            "place": self.place,
            "saved": self.saved,
            "loss_increase": self.loss_increase,
            "cost": self.cost,
        }


@dataclass(frozen=True)
class Sensitivity:
    """Of a package on a text. `matrices`: each in all layers; `layers`: all matrices of each block, and of
    the head."""

    keep: float
    predictions: int
    loss: float
    executed: int  # multiply-accumulates a position, as the package runs
    matrices: list[Cost]
    layers: list[Cost]

    def to_json(self) -> dict:
        return {
            "keep": self.keep,
            "predictions": self.predictions,
            "loss": self.loss,
            "executed_a_position": self.executed,
            "matrices": [cost.to_json() for cost in self.matrices],
            "layers": [cost.to_json() for cost in self.layers],
        }


class _Bench:
    """A model whose matrices are wrapped."""

    def __init__(self, package: Package, tokens: np.ndarray, sequence: int):
        if package.meta.logit_scale is None:
            raise UserError(f"package {package.path} has no logit scale, so its loss is unknown")
        self._model = SequenceModel(package.model)
        self._scale, self._tokens, self._sequence = package.meta.logit_scale, tokens, sequence
        self.matrices: list[_Matrix] = []
        for layer, block in enumerate(self._model.blocks):
            for name in BLOCK_MATRICES:
                self._wrap(block.prepared, name, name, layer)
        head = self._model.head
        self._wrap(head, "prior", "prior", None)
        self._wrap(head, "fused", "head", None)

    def _wrap(self, owner: object, attribute: str, name: str, layer: int | None) -> None:
        self.matrices.append(_Matrix(getattr(owner, attribute), name, layer))
        setattr(owner, attribute, self.matrices[-1])

    def run(self, keep: float, chosen: Callable[[_Matrix], bool]) -> tuple[float, int]:
        """(nats a token, executed multiply-accumulates) with inputs dropped in the chosen matrices."""
        for matrix in self.matrices:
            matrix.executed, matrix.keep = 0, keep if chosen(matrix) else 1.0
        targets, loss, done = self._tokens[1:], 0.0, 0
        for piece in pieces(self._tokens, self._sequence):
            for logits in self._model.logits(piece):
                real = (logits - logits.max(axis=1, keepdims=True)) * self._scale
                rows = np.arange(len(real))
                loss -= float((real[rows, targets[done + rows]] - np.log(np.exp(real).sum(axis=1))).sum())
                done += len(real)
        return loss / done, sum(matrix.executed for matrix in self.matrices)


def sensitivity(
    package: Package,
    tokens: np.ndarray,
    *,
    keep: float = 0.5,
    sequence: int = 256,
    progress: Progress = silent,
) -> Sensitivity:
    """Drop the smaller 1 - `keep` of the nonzero inputs: of one kind of matrix at a time, then of a layer."""
    tokens = np.asarray(tokens, np.int64)
    if len(tokens) < 2:
        raise UserError(f"{len(tokens)} tokens hold nothing to predict; give at least 2")
    bench = _Bench(package, tokens, sequence)
    places = list(_places(package.shape.layers))
    base, executed = bench.run(1.0, lambda matrix: False)
    costs = []
    for number, (place, chosen) in enumerate(places):
        progress("sensitivity", number, len(places))
        loss, left = bench.run(keep, chosen)
        costs.append(Cost(place, 1 - left / executed, loss - base))
    kinds = len(BLOCK_MATRICES) + len(HEAD_MATRICES)
    return Sensitivity(
        keep, len(tokens) - 1, base, executed // (len(tokens) - 1), costs[:kinds], costs[kinds:]
    )


def _is_named(name: str, matrix: _Matrix) -> bool:
    return matrix.name == name


def _is_of_layer(layer: int | None, matrix: _Matrix) -> bool:
    return matrix.layer == layer


def _places(layers: int) -> Iterator[tuple[str, Callable[[_Matrix], bool]]]:
    for name in (*BLOCK_MATRICES, *HEAD_MATRICES):
        yield name, partial(_is_named, name)
    for layer in (*range(layers), None):
        yield "head" if layer is None else f"layer {layer}", partial(_is_of_layer, layer)


def draw(found: Sensitivity, path: str) -> None:
    """Bars of the costs by matrix and by layer, as PNG or SVG by the ending of `path`."""
    try:
        import matplotlib
    except ImportError as error:
        raise UserError(f"a plot needs matplotlib ({error}); run: pip install 'symlight[plots]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True)
    for axis, costs, title in zip(
        axes, (found.matrices, found.layers), ("by matrix, all layers", "by layer, all matrices"), strict=True
    ):
        axis.bar([cost.place for cost in costs], [cost.cost or 0 for cost in costs], color="0.4")
        axis.set_title(title)
        axis.tick_params(axis="x", rotation=45)
    axes[0].set_ylabel("nats a token / share of MACs saved")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


__all__ = ["Cost", "Sensitivity", "draw", "largest", "sensitivity"]
