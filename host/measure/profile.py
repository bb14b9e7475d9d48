"""`symlight profile` of V2 packages: density by layer and site, work by matrix, time by operation."""

import time
from dataclasses import dataclass

import numpy as np

from symlight.cpu.engine import CHUNK, Engine, Feed, Session, Want
from symlight.cpu.work import executed_share, products
from symlight.model.config import ModelShape
from symlight.model.evaluate import weighted_density
from symlight.model.reference import SITES

from ..device.machine import Progress, silent


@dataclass
class ProfileV2:
    """A prompt in chunks, and what was generated after it, token by token.

    `active` [tokens, L, 4]: nonzero inputs by SITES of every token that was ingested. `optional`
    [tokens, L + 2]: of W_O by layer, and elements of the head's a and g. `by_row`: matrices whose rows of
    zeros are skipped. `operations`: of the decode passes, name -> (nanoseconds, bytes of weights).
    """

    shape: ModelShape
    prompt: int
    active: np.ndarray
    optional: np.ndarray
    by_row: frozenset[str]
    heads: int
    operations: dict[str, tuple[int, int]]
    decode_seconds: list[float]
    prompt_seconds: float
    read_bandwidth: float  # bytes a second: all weights read from end to end by all threads
    threads: int
    isa: str

    @property
    def densities(self) -> np.ndarray:
        """Share of nonzero inputs, [L, 4] by SITES."""
        found: np.ndarray = self.active.mean(axis=0) / self.inputs
        return found

    @property
    def inputs(self) -> np.ndarray:
        """Inputs by SITES."""
        return np.array([self.shape.ffn if site == "down" else self.shape.width for site in SITES])

    @property
    def work(self) -> dict[str, tuple[int, int]]:
        """(executed, dense) products by matrix, of prompt and decode passes."""
        sums = self.active.sum(axis=0), self.optional.sum(axis=0)
        return products(self.shape, sums[0], len(self.active), self.heads, sums[1], self.by_row)

    @property
    def out_densities(self) -> np.ndarray:
        """Share of nonzero inputs of W_O, [L]."""
        found: np.ndarray = self.optional[:, :-2].mean(axis=0) / self.shape.width
        return found

    @property
    def head_densities(self) -> dict[str, float]:
        """Share of nonzero elements of the head's inputs a and g, where it was evaluated."""
        a, g = self.optional[:, -2:].sum(axis=0) / max(1, self.heads)
        return {"a": float(a) / self.shape.width, "g": float(g) / self.shape.bottleneck}

    def to_json(self) -> dict:
        passes = max(1, len(self.decode_seconds))
        seconds = float(np.median(self.decode_seconds)) if self.decode_seconds else None
        return {
            "prompt_tokens": self.prompt,
            "decode_passes": len(self.decode_seconds),
            "threads": self.threads,
            "instruction_set": self.isa,
            "density": float(weighted_density(self.densities, self.shape)),
            "density_by_layer": [
                dict(zip((*SITES, "out"), map(float, row), strict=True))
                for row in np.column_stack([self.densities, self.out_densities])
            ],
            "head_density": self.head_densities,
            "executed_over_dense": executed_share(self.work),
            "matrices": {
                name: {"executed": executed, "dense": dense, "share": executed / dense if dense else None}
                for name, (executed, dense) in self.work.items()
            },
            "operations": {
                name: {
                    "microseconds": spent / passes / 1e3,
                    "bytes": read / passes,
                    "bytes_a_second": read / spent * 1e9 if read and spent else None,
                }
                for name, (spent, read) in self.operations.items()
            },
            "bytes_a_token": sum(read for _, read in self.operations.values()) / passes,
            "decode_tokens_a_second": None if seconds is None else 1 / seconds,
            "prompt_tokens_a_second": self.prompt / self.prompt_seconds if self.prompt_seconds else None,
            "read_bytes_a_second": self.read_bandwidth,
        }


def read_bandwidth(engine: Engine, times: int = 5) -> float:
    """Bytes a second of reading all weights, the best of several times."""
    best = 0.0
    for _ in range(times):
        began = time.perf_counter()
        best = max(best, engine.read_weights() / (time.perf_counter() - began))
    return best


def profile(engine: Engine, prompt: list[int], new_tokens: int, progress: Progress = silent) -> ProfileV2:
    """Ingest a prompt in chunks, then generate greedily, a pass a token."""
    session, parts = Session.new(engine.shape), []
    began = time.perf_counter()
    for first in range(0, len(prompt) - 1, CHUNK):
        part = prompt[first : min(first + CHUNK, len(prompt) - 1)]
        parts.append(engine.run([Feed(session, part)])[0])
        progress("ingest", first + len(part), len(prompt))
    prompt_seconds = time.perf_counter() - began
    before, token, seconds = engine.profile(), prompt[-1], []
    for index in range(new_tokens):
        began = time.perf_counter()
        fed = engine.run([Feed(session, [token], Want.LAST)])[0]
        seconds.append(time.perf_counter() - began)
        parts.append(fed)
        token = fed.tokens[0]
        progress("decode", index + 1, new_tokens)
    operations = {
        name: (spent - before[name][0], read - before[name][1])
        for name, (spent, read) in engine.profile().items()
    }
    layers = engine.shape.layers
    return ProfileV2(
        shape=engine.shape,
        prompt=len(prompt),
        active=np.concatenate([np.zeros((0, layers, len(SITES)), np.int32), *(fed.active for fed in parts)]),
        optional=np.concatenate([np.zeros((0, layers + 2), np.int32), *(fed.optional for fed in parts)]),
        by_row=engine.weights.by_row,
        heads=new_tokens,
        operations=operations,
        decode_seconds=seconds,
        prompt_seconds=prompt_seconds,
        read_bandwidth=read_bandwidth(engine),
        threads=engine.threads,
        isa=engine.isa,
    )
