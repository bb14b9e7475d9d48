"""The kernels' sampler: what model.sampling chooses, in microseconds."""

import ctypes
from functools import cache

import numpy as np

from symlight.model.sampling import SamplerSettings, exp_table

from . import abi
from .library import Library


@cache
def _table() -> np.ndarray:
    return exp_table().astype(np.int32)


class Sampler:
    """`settings` as the kernels read them, at `address` as long as this object lives."""

    def __init__(self, settings: SamplerSettings):
        self._record = abi.Sampler(
            exp_table=_table().ctypes.data,
            multiplier=settings.multiplier,
            min_weight=settings.min_weight,
            top_p=settings.top_p,
            seed=settings.seed,
            shift=settings.shift,
            top_k=settings.top_k,
        )
        self.address = ctypes.addressof(self._record)


def draw(library: Library, logits: np.ndarray, sampler: Sampler, position: int) -> int:
    """The token at `position` from logits [V]: `model.sampling.choose`."""
    logits = np.ascontiguousarray(logits, np.int64)
    token: int = library.draw(sampler.address, logits.ctypes.data, len(logits), position)
    return token
