"""Small random V1 models for tests."""

import numpy as np

from symlight.model.v1 import tensors as names
from symlight.model.v1.config import V1_08B, V1_194M, small
from symlight.model.v1.synthetic import Densities, tensors

FAMILIES = (V1_194M, V1_08B)
RARE = Densities(encoder=0.02, block=0.03, ffn=0.1)  # many positions have no spike at all
USUAL = Densities(encoder=0.1, block=0.12, ffn=0.1)


def model(seed, densities=USUAL, family=V1_194M, **sizes):
    """(shape, float32 tensors by name, a generator that goes on from the seed)."""
    shape = small(family, **sizes).shape
    found = dict(tensors(shape, densities, seed))
    random = np.random.default_rng(seed + 1)
    found[names.PRIOR_WEIGHT] = np.array([random.uniform(0, 1)], np.float32)
    for name in list(found):  # nothing is symmetric: a forgotten bias or gain shows
        if name.endswith(".bias"):
            found[name] = (0.1 * random.standard_normal(shape.width)).astype(np.float32)
    return shape, found, random
