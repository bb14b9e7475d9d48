"""The work of passes: products executed and enumerated, by matrix, from the counted nonzero inputs."""

import numpy as np

from symlight.model.config import ModelShape
from symlight.model.reference import SITES

from .layout import BY_ROW, matrix_sizes

SITE_OF = {"qkv": "qkv", "decay": "decay", "up": "up", "down": "down"}  # the event site that feeds a matrix


def products(
    shape: ModelShape,
    active: np.ndarray,
    passes: int,
    heads: int,
    optional: np.ndarray | None = None,
    by_row: frozenset[str] = BY_ROW,
) -> dict[str, tuple[int, int]]:
    """(executed, dense) multiply-accumulates by matrix.

    `active` [L, 4]: nonzero inputs by SITES, summed over `passes`; the head was evaluated `heads` times. A
    dense engine would multiply every input. Attention, normalisation and recurrence do not count (V2 paper,
    section 3.1).

    `by_row`: the matrices whose rows of zeros are skipped. For those behind the optional event sites,
    `optional` [L + 2] has the sums of nonzero inputs: of W_O by layer, of the head's a and g.
    """
    found = {}
    counted = {}
    if optional is not None:
        out, (a, g) = optional[:-2].sum(), optional[-2:]
        counted = {"out": out, "prior": a, "fused": a + g}
    for name, (inputs, outputs) in matrix_sizes(shape).items():
        if name in SITE_OF:
            executed = int(active[:, SITES.index(SITE_OF[name])].sum()) * outputs
            dense = passes * shape.layers * inputs * outputs
        else:
            times = passes * shape.layers if name == "out" else heads
            executed = dense = times * inputs * outputs
            if name in by_row and counted:
                executed = int(counted[name]) * outputs
        found[name] = (executed, dense)
    return found


def executed_share(work: dict[str, tuple[int, int]]) -> float | None:
    """Executed over dense products of all matrices; None when there are none."""
    executed, dense = (sum(pair[i] for pair in work.values()) for i in range(2))
    return executed / dense if dense else None
