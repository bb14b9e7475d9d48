"""The training objective: cross-entropy, and a penalty on the bytes of weights that active inputs make a
decode pass read ("Event-driven LM sparsity", equation 3).

A zero saves the bytes of its row of INT8 weights, so the share of active inputs of a site counts with the
share of a decode pass's bytes that lie behind it: the penalty is the share of all these bytes that is read.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..config import ModelShape
from .float_model import FloatModel


def row_bytes(shape: ModelShape, site: str) -> int:
    """Bytes of INT8 weights that one zero of an input saves in a decode pass: its rows in all matrices."""
    width, ffn, vocab, hidden = shape.width, shape.ffn, shape.vocab, shape.bottleneck
    return {
        "qkv": 3 * width,
        "decay": width,
        "out": width,
        "up": ffn,
        "down": width,
        "head": vocab + hidden,
        "head_g": vocab,
    }[site]


def inputs(shape: ModelShape, site: str) -> int:
    """Inputs of a site, of one layer."""
    return {"down": shape.ffn, "head_g": shape.bottleneck}.get(site, shape.width)


def pass_bytes(shape: ModelShape) -> int:
    """Bytes of INT8 weights of a decode pass that reads every row."""
    blocks = sum(
        row_bytes(shape, site) * inputs(shape, site) for site in ("qkv", "decay", "out", "up", "down")
    )
    head = sum(row_bytes(shape, site) * inputs(shape, site) for site in ("head", "head_g"))
    return shape.layers * blocks + head


def weight(shape: ModelShape, site: str) -> float:
    """Share of a decode pass's bytes that lie behind a site, of one layer."""
    return row_bytes(shape, site) * inputs(shape, site) / pass_bytes(shape)


def active_bytes(shape: ModelShape, layers: list[dict], sites: tuple[str, ...]) -> float:
    """Bytes of weights that a decode pass reads at the densities of `FloatModel.forward`'s watch: behind
    inputs that are no event site, all."""
    total = 0.0
    for seen in layers:
        for site in ("qkv", "decay", "out", "up", "down"):
            density = seen[f"{site}_in"] if site != "out" or "out" in sites else 1.0
            total += density * row_bytes(shape, site) * inputs(shape, site)
    densities = (layers[0]["head_in"], layers[0]["head_g"]) if "head" in sites else (1.0, 1.0)
    for site, density in zip(("head", "head_g"), densities, strict=True):
        total += density * row_bytes(shape, site) * inputs(shape, site)
    return total


class Objective(nn.Module):
    """Task loss and penalty of a batch; one module, so that several processes can share its gradients."""

    def __init__(self, model: FloatModel):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, y: Tensor, strength: float) -> tuple[Tensor, Tensor, Tensor]:
        """(objective, cross-entropy in nats a token, penalty 0..1) of inputs x and targets y [batch, time];
        `strength` is lambda."""
        shares: list | None = [] if strength else None
        logits = self.model(x, shares=shares)
        task = functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten())
        if not shares:
            return task, task.detach(), torch.zeros_like(task)
        shape = self.model.shape
        penalty = sum(weight(shape, site) * share for site, _, share in shares)
        return task + strength * penalty, task.detach(), penalty.detach()
