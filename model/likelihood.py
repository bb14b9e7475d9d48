"""Log-probabilities of integer logits: natural logarithms in float64, over the whole vocabulary.

Logits are exact and equal on every engine, so these are too, up to the last digit of float64.
"""

import numpy as np

from symlight.base.errors import UserError


def log_probabilities(logits: np.ndarray, logit_scale: float | None) -> np.ndarray:
    """Log-softmax over the last axis of integer logits [..., V], of which one unit is `logit_scale`.

    It is the model's own distribution: temperature, truncation and penalties do not enter.
    """
    if logit_scale is None:
        raise UserError(
            "the package does not say what one unit of its logits means (logit_scale), so there are no "
            "log-probabilities; ask for the integer logits"
        )
    logits = np.asarray(logits, np.int64)
    x = (logits - logits.max(axis=-1, keepdims=True)) * logit_scale
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
