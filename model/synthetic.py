"""Seeded models without training: random ones for tests and benches, calibrated ones for full-size measurements."""

import math
from statistics import NormalDist

import numpy as np

from .config import ModelShape, Numerics
from .errors import UserError
from .reference import SITES
from .scaling import alibi_slopes, event_scalars, gelu_values, mix_gains, multiplier_shift, norm_tensors
from .weights import BLOCK_TENSORS, IntegerModel, tensor_names

UNIT = 2048             # 1.0 in Q4.11
WEIGHT_RMS = 73.3       # of a uniform int8 weight in [-127, 127]
PROJECTED_DENSITY = 0.45
NORM_EPS = 1e-5
EXTREMES = ("negative_scores", "saturate", "empty_group")


def random_model(
    shape: ModelShape,
    seed: int,
    density: float | dict[str, float] = 0.24,
    extreme: str | None = None,
    numerics: Numerics | None = None,
) -> IntegerModel:
    """A random model whose event sites are roughly `density` full: one number, or one a site of SITES.

    0.0 and 1.0 are exact (1.0: almost surely). `extreme` turns the model into one of EXTREMES:
    `negative_scores` (every attention sum is zero), `saturate` (every clamp is reached, accumulators at their
    worst case), `empty_group` (only inputs 1 mod 4 are ever nonzero). The encoder's spikes have a density of their own
    unless `decay` is 0 or 1.
    """
    if extreme is not None and extreme not in EXTREMES:
        raise UserError(f"no extreme model is called {extreme!r}; known: {', '.join(EXTREMES)}")
    by_site = dict(density) if isinstance(density, dict) else dict.fromkeys(SITES, density)
    if set(by_site) != set(SITES) or not all(0 <= value <= 1 for value in by_site.values()):
        raise UserError(f"density is {density!r}; give a number in 0..1 or one for each of {', '.join(SITES)}")
    maker = _Maker(shape, numerics or Numerics(), np.random.default_rng(seed), by_site)
    tensors = maker.tensors()
    if extreme is not None:
        globals()[f"_{extreme}"](shape, tensors, np.random.default_rng(seed + 1))
    return IntegerModel.from_tensors(shape, maker.numerics, tensors)


def _quantile(density: float) -> float:
    """Threshold of a unit Gaussian that `density` of it exceeds; the ends are kept finite."""
    return NormalDist().inv_cdf(1 - min(max(density, 1e-9), 1 - 1e-9))


class _Maker:
    """Draws every tensor so that each vector has about unit variance in its own format."""

    def __init__(self, shape: ModelShape, numerics: Numerics, rng: np.random.Generator, density: dict[str, float]):
        self.shape, self.numerics, self.rng, self.density = shape, numerics, rng, density

    def tensors(self) -> dict[str, np.ndarray]:
        shape = self.shape
        named: dict[str, np.ndarray] = {
            "spike_encoder.embedding_table": self.embedding(),
            "attention.slopes": alibi_slopes(shape, self.numerics.score_frac),
            **self.head(),
        }
        for layer in range(shape.layers):
            named.update({f"blocks.{layer}.{name}": value for name, value in self.block().items()})
        return {name: named[name] for name, _ in tensor_names(shape)}

    def weights(self, rows: int, columns: int) -> np.ndarray:
        return self.rng.integers(-127, 128, (rows, columns), dtype=np.int8)

    def projection(self, rows: int, columns: int, input_rms: float, target: float) -> dict[str, np.ndarray]:
        """Requantised to an rms of `target` units; scales vary by channel."""
        acc_rms = WEIGHT_RMS * math.sqrt(columns) * max(input_rms, 1e-3)
        multiplier, shift = multiplier_shift(target / acc_rms * self.rng.uniform(0.7, 1.4, rows))
        return {"weight": self.weights(rows, columns), "multiplier": multiplier, "shift": shift}

    def embedding(self) -> np.ndarray:
        size = (self.shape.vocab, self.shape.width)
        if self.density["decay"] == 1:      # every step reaches the threshold
            x = self.rng.uniform(1.05, 3, size)
        else:
            x = self.rng.standard_normal(size, dtype=np.float32)
            if self.density["decay"] == 0:  # the membrane never rises
                x = -np.abs(x)
            if self.density["qkv"] == 1:
                x = np.where(x < 0, x - 0.6, x + 0.6)
        return np.clip(np.rint(x * UNIT), -32768, 32767).astype(np.int16)

    def event(self, density: float) -> tuple[np.ndarray, float]:
        """(T, M, sh) of an event on a unit Gaussian, and the rms of its payload."""
        if density == 0:
            return np.array([1, 0, 1], np.int32), 0.0
        threshold = max(1, round(_quantile(density / 2) * UNIT)) if density < 1 else 1
        step = max(threshold, UNIT // 4) if density < 1 else UNIT // 2
        sample = np.abs(self.rng.standard_normal(8192)) * UNIT
        payload = np.where(sample < threshold, 0, np.rint(sample / step))
        return event_scalars(threshold, 1 / step), math.sqrt(float((payload**2).mean()))

    def norm(self, density: float) -> dict[str, np.ndarray]:
        """gamma and beta; for density 1 every output keeps away from zero."""
        width = self.shape.width
        gamma, beta = self.rng.normal(1, 0.1, width), self.rng.normal(0, 0.1, width)
        if density == 1:
            gamma, beta = gamma * 0.2, self.rng.choice([-1, 1], width) * self.rng.uniform(1.5, 2.5, width)
        return norm_tensors(gamma, beta, width, NORM_EPS)

    def thresholds(self, rms: float, density: float, count: int, floor: int, ceiling: int) -> np.ndarray:
        """Thresholds that `density` of a Gaussian of this rms reaches; `floor` always, `ceiling` never."""
        if density in (0, 1):
            return np.full(count, floor if density else ceiling)
        values = _quantile(density) * rms * self.rng.uniform(0.8, 1.2, count)
        return np.clip(np.rint(values), floor, ceiling)

    def block(self) -> dict[str, np.ndarray]:
        shape, rng, density = self.shape, self.rng, self.density
        width, ffn = shape.width, shape.ffn
        attention_event, event_rms = self.event(density["qkv"])
        ffn_event, ffn_rms = self.event(density["up"])
        acc_rms = WEIGHT_RMS * math.sqrt(width) * max(event_rms, 0.01)
        parts: dict[str, dict] = {
            "tcam.tcam_proj": self.projection(width, width, math.sqrt(density["decay"]), 4096),
            "tcam.out_proj": self.projection(width, width, 40, 3000),
            "tcam.norm": self.norm(density["up"]),
            "ffn.down": self.projection(width, ffn, math.sqrt(density["down"]), 3000),
            "ffn.norm": self.norm(density["qkv"]),
            "ffn.up": {
                "weight": self.weights(ffn, width),
                "threshold": self.thresholds(
                    WEIGHT_RMS * math.sqrt(width) * ffn_rms, density["down"], ffn, -(2**31), 2**31 - 1
                ).astype(np.int32),
            },
        }
        for letter in "qkv":
            threshold = self.thresholds(acc_rms, PROJECTED_DENSITY / 2, width, 1, 2**27 - 1)
            multiplier, shift = multiplier_shift(rng.uniform(0.7, 2, width) / threshold)
            parts[f"tcam.sparse_attn.{letter}_proj"] = {
                "weight": self.weights(width, width), "threshold": threshold.astype(np.int32),
                "multiplier": multiplier, "shift": shift,
            }
        named = {f"{part}.{leaf}": value for part, leaves in parts.items() for leaf, value in leaves.items()}
        named |= {
            "tcam.event": attention_event,
            "tcam.decay_beta": rng.integers(0, 65536, shape.heads).astype(np.uint16),
            "tcam.mix": mix_gains(rng.uniform(0.1, 0.9)),
            "ffn.event": ffn_event,
            "spike_threshold": self.thresholds(UNIT, density["decay"], width, -32768, 32767).astype(np.int16),
        }
        assert len(named) == len(BLOCK_TENSORS)
        return named

    def head(self) -> dict[str, np.ndarray]:
        shape = self.shape
        multiplier, shift = multiplier_shift(2.0**-7)   # Q4.11 to Q3.4
        prior = self.projection(shape.bottleneck, shape.width, 16, 16)
        return {
            "output_head.input": np.array([multiplier, shift], np.int32),
            **{f"output_head.prior_net.0.{leaf}": value for leaf, value in prior.items()},
            "output_head.gelu_table": gelu_values(4, 1 / 16),
            "output_head.fused.weight": self.weights(shape.vocab, shape.head_rows),
            "output_head.fused.scale": self.rng.integers(20000, 65536, shape.vocab).astype(np.uint16),
        }


def _blocks(shape: ModelShape, tensors: dict[str, np.ndarray]):
    """For each block a function that sets one tensor to a value of its own dtype, broadcast."""
    for layer in range(shape.layers):

        def put(name: str, value, layer=layer):
            old = tensors[f"blocks.{layer}.{name}"]
            tensors[f"blocks.{layer}.{name}"] = np.ascontiguousarray(np.broadcast_to(value, old.shape)).astype(old.dtype)

        yield put


def _negative_scores(shape: ModelShape, tensors: dict[str, np.ndarray], rng) -> None:
    """Inputs are positive, W_K is positive, W_Q negative: every score is below zero."""
    tensors["spike_encoder.embedding_table"] = np.abs(tensors["spike_encoder.embedding_table"] // 2) + UNIT
    size = (shape.width, shape.width)
    for put in _blocks(shape, tensors):
        put("tcam.event", [1, 16384, 24])               # 1.0 becomes 2
        put("tcam.sparse_attn.k_proj.weight", rng.integers(1, 128, size))
        put("tcam.sparse_attn.q_proj.weight", -rng.integers(1, 128, size))
        for letter in "qk":
            put(f"tcam.sparse_attn.{letter}_proj.threshold", 1)
            put(f"tcam.sparse_attn.{letter}_proj.multiplier", 16384)
            put(f"tcam.sparse_attn.{letter}_proj.shift", 24)
        put("ffn.norm.gamma", 0)
        put("ffn.norm.beta", rng.integers(UNIT, 3 * UNIT, shape.width))


def _saturate(shape: ModelShape, tensors: dict[str, np.ndarray], rng) -> None:
    """Constant extreme weights; rows alternate in sign so that both ends of every clamp are reached."""
    sign = np.where(np.arange(shape.width) % 2, -1, 1)
    wide, ffn_sign = 127 * shape.width * 127, np.where(np.arange(shape.ffn) % 2, -1, 1)
    token_sign = np.where(np.arange(shape.vocab) % 3 == 2, -32768, 32767)
    tensors["spike_encoder.embedding_table"][...] = token_sign[:, None]
    for put in _blocks(shape, tensors):
        for name in ("tcam.event", "ffn.event"):
            put(name, [1, 32767, 1])
        for letter in "qkv":
            prefix = f"tcam.sparse_attn.{letter}_proj"
            put(f"{prefix}.weight", 127)
            put(f"{prefix}.threshold", wide)            # met exactly
        for name in ("tcam.sparse_attn.q_proj", "tcam.sparse_attn.k_proj", "tcam.sparse_attn.v_proj",
                     "tcam.tcam_proj", "tcam.out_proj", "ffn.down"):
            put(f"{name}.multiplier", 32767)
            put(f"{name}.shift", 1)
        put("tcam.tcam_proj.weight", 127 * sign[:, None])
        put("tcam.mix", [32767, 32767, 1])
        put("tcam.out_proj.weight", 127 * sign[:, None] * sign)
        put("tcam.norm.gamma", 32767)
        put("tcam.norm.beta", 0)
        put("tcam.norm.scalars", [1, 16])
        put("ffn.up.weight", 127 * ffn_sign[:, None] * sign)
        put("ffn.up.threshold", wide)
        put("ffn.down.weight", 127 * sign[:, None])
        put("ffn.norm.gamma", 0)
        put("ffn.norm.beta", 32767)
    head_sign = np.where(np.arange(shape.vocab) % 2, 127, -127)
    tensors["output_head.prior_net.0.weight"][...] = np.where(np.arange(shape.bottleneck) % 2, -127, 127)[:, None]
    tensors["output_head.input"] = np.array([32767, 1], np.int32)
    tensors["output_head.gelu_table"][128:], tensors["output_head.gelu_table"][:128] = 127, -127
    tensors["output_head.fused.weight"][...] = head_sign[:, None]
    tensors["output_head.fused.scale"][...] = 65535


def _empty_group(shape: ModelShape, tensors: dict[str, np.ndarray], rng) -> None:
    """Only elements 1 mod 4 of every event vector can be nonzero."""
    keep, keep_ffn = np.arange(shape.width) % 4 == 1, np.arange(shape.ffn) % 4 == 1
    tensors["spike_encoder.embedding_table"][:, ~keep] = 0
    for layer, put in enumerate(_blocks(shape, tensors)):
        for name in ("tcam.norm.gamma", "tcam.norm.beta", "ffn.norm.gamma", "ffn.norm.beta"):
            put(name, tensors[f"blocks.{layer}.{name}"] * keep)
        put("spike_threshold", np.where(keep, tensors[f"blocks.{layer}.spike_threshold"], UNIT))
        put("ffn.up.threshold", np.where(keep_ffn, tensors[f"blocks.{layer}.ffn.up.threshold"], 2**31 - 1))
