"""How to train: the settings, and what follows from the share of the budget that is spent."""

import math
from dataclasses import dataclass

from symlight.base.optional import present


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train. Exactly one of `seconds` and `steps` is the budget."""

    seconds: float | None = 2700.0  # wall time
    steps: int | None = None  # optimiser steps
    seed: int = 0
    batch: int = 16  # sequences a step, of one process and one part of an accumulated step
    accumulate: int = 1  # parts of a step, whose gradients are added up
    sequence: int = 256  # tokens a sequence
    bos_share: float = 0.25  # of the sequences that start with <s>
    peak_rate: float = 1e-2  # 2e-2 leaves a quarter of the feed-forward channels without any spike
    final_share: float = 0.03  # of the peak rate, at the end
    warm_up: int = 60  # steps
    weight_decay: float = 0.1  # on matrices only
    clip: float = 1.0  # gradient norm
    evaluate_every: int = 300  # steps; a checkpoint to resume from is written then, too
    strength: float = 0.0  # lambda of the sparsity penalty
    strength_warm_up: float = 0.05  # share of the budget over which lambda rises from 0
    device: str = "auto"  # of torch; auto: a GPU where there is one
    precision: str = "auto"  # fp32 or bf16; auto: bf16 on a GPU that has it

    def __post_init__(self):
        if (self.seconds is None) == (self.steps is None):
            raise ValueError(f"give one budget: seconds {self.seconds} or steps {self.steps}")
        if self.sequence < 2 or self.batch < 1 or self.accumulate < 1:
            raise ValueError(
                f"batch {self.batch} x sequence {self.sequence} x {self.accumulate} holds nothing to predict"
            )
        if self.precision not in ("auto", "fp32", "bf16"):
            raise ValueError(f"precision {self.precision!r} is not auto, fp32 or bf16")

    def spent(self, step: int, seconds: float) -> float:
        """Share of the budget, 0..1, that is gone at the start of `step` and after `seconds`."""
        return min(1.0, step / self.steps if self.steps is not None else seconds / present(self.seconds))

    def rate(self, step: int, spent: float) -> float:
        """Learning rate: linear warm-up over steps, then a cosine over the budget."""
        cosine = self.final_share + (1 - self.final_share) * 0.5 * (1 + math.cos(math.pi * spent))
        return self.peak_rate * min(1.0, (step + 1) / self.warm_up) * cosine

    def penalty(self, spent: float) -> float:
        """Lambda: linear warm-up over the first share of the budget."""
        return (
            self.strength * min(1.0, spent / self.strength_warm_up)
            if self.strength_warm_up
            else self.strength
        )
