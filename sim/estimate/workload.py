"""Which inputs are nonzero: the activity that an estimate assumes."""

import numpy as np

from symlight.model.config import ModelShape
from symlight.model.reference import SITES


def site_inputs(shape: ModelShape) -> dict[str, int]:
    """Inputs of every event site."""
    return {site: shape.ffn if site == "down" else shape.width for site in SITES}


def active_inputs(
    shape: ModelShape,
    densities: np.ndarray,
    passes: int,
    rng: np.random.Generator,
    out: np.ndarray | None = None,
) -> list[dict[str, np.ndarray]]:
    """A layer at a time: site -> bool [passes, inputs], each input nonzero with the density [layers, 4] of
    its place. With the densities `out` [layers] of W_O's input, layers in which it is below 1 have `out`,
    too."""
    found = [
        {
            site: rng.random((passes, count)) < densities[layer, i]
            for i, (site, count) in enumerate(site_inputs(shape).items())
        }
        for layer in range(shape.layers)
    ]
    for layer, share in enumerate([] if out is None else out):
        if share < 1:
            found[layer]["out"] = rng.random((passes, shape.width)) < share
    return found


def head_inputs(
    shape: ModelShape, densities: tuple[float, float], passes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Which elements of the head's inputs a and g are nonzero: bool [passes, width], [passes, bottleneck]."""
    a, g = densities
    return rng.random((passes, shape.width)) < a, rng.random((passes, shape.bottleneck)) < g


def row_times(
    active: np.ndarray, groups: int, words: int, lanes: int, arrival: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """When the gather of each group sends its rows, and its end marker.

    active [passes, inputs]; arrival [passes, words]: when each word is there. The gather sends one element a
    cycle, a word without
    any costs a cycle. Returns ([passes, groups, rows] ascending, infinite after the last, [passes,
    groups]), relative to the first item.
    """
    passes = len(active)
    padded = np.zeros((passes, words * lanes), bool)
    padded[:, : active.shape[1]] = active
    mine = padded.reshape(passes, words, lanes // groups, groups).transpose(
        0, 3, 1, 2
    )  # row i belongs to group i mod groups
    count = mine.sum(axis=-1)
    cost = np.maximum(count, 1)
    before = np.cumsum(cost, axis=-1) - cost
    start = np.maximum.accumulate(arrival[:, None, :] - before, axis=-1) + before
    rank = np.cumsum(mine, axis=-1) - 1
    times = np.where(mine, start[..., None] + rank, np.inf).reshape(passes, groups, -1)
    times.sort(axis=-1)
    most = int(count.sum(axis=-1).max(initial=0))
    return times[..., :most], start[..., -1] + cost[..., -1] - 1
