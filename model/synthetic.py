"""Seeded models without training: random ones for tests, calibrated ones for full-size measurements."""

import math
from statistics import NormalDist

import numpy as np

from symlight.base.errors import UserError

from .config import OPTIONAL_SITES, RESIDUAL_FRAC, ModelShape, Numerics
from .evaluate import weighted_density
from .random_models.calibration import calibrate_block, calibrate_encoder, calibrate_head
from .random_models.extremes import EXTREMES
from .reference import SITES, Reference
from .scaling import (
    GELU_FLOOR,
    alibi_slopes,
    event_scalars,
    gelu_values,
    mix_gains,
    multiplier_shift,
    norm_tensors,
)
from .sequence import encode
from .tensors import tensor_names
from .weights import IntegerModel

UNIT = 1 << RESIDUAL_FRAC
WEIGHT_RMS = 73.3  # of a uniform int8 weight in [-127, 127]
PROJECTED_DENSITY = 0.45
MIX_RMS = 40  # of the input of W_O, about
NORM_EPS = 1e-5


def random_model(
    shape: ModelShape,
    seed: int,
    density: float | dict[str, float] = 0.24,
    extreme: str | None = None,
    numerics: Numerics | None = None,
) -> IntegerModel:
    """A random model whose event sites are roughly `density` full: one number, or one a site of SITES.

    With numbers for sites of OPTIONAL_SITES as well, the model has these sites, too. 0.0 and 1.0 are exact
    (1.0: almost surely) at the others. `extreme` turns the model into one of EXTREMES:
    `negative_scores` (every attention sum is zero), `saturate` (every clamp is reached, accumulators at their
    worst case), `empty_group` (only inputs 1 mod 4 are ever nonzero). The encoder's spikes have a density of
    their own unless `decay` is 0 or 1.
    """
    if extreme is not None and extreme not in EXTREMES:
        raise UserError(f"no extreme model is called {extreme!r}; known: {', '.join(EXTREMES)}")
    by_site = dict(density) if isinstance(density, dict) else dict.fromkeys(SITES, density)
    needed = set(by_site) - set(OPTIONAL_SITES)
    if needed != set(SITES) or not all(0 <= value <= 1 for value in by_site.values()):
        raise UserError(
            f"density is {density!r}; give a number in 0..1 or one for each of {', '.join(SITES)}"
        )
    numerics = numerics or Numerics()
    tensors = _Maker(shape, numerics, np.random.default_rng(seed), by_site).tensors()
    if extreme is not None:
        EXTREMES[extreme](shape, tensors, np.random.default_rng(seed + 1))
    return IntegerModel.from_tensors(shape, numerics, tensors)


def _quantile(density: float) -> float:
    """Threshold of a unit Gaussian that `density` of it exceeds; the ends are kept finite."""
    return NormalDist().inv_cdf(1 - min(max(density, 1e-9), 1 - 1e-9))


class _Maker:
    """Draws every tensor so that each vector has about unit variance in its own format."""

    def __init__(
        self, shape: ModelShape, numerics: Numerics, rng: np.random.Generator, density: dict[str, float]
    ):
        self.shape, self.numerics, self.rng, self.density = shape, numerics, rng, density
        self.sites = tuple(site for site in OPTIONAL_SITES if site in density)

    def tensors(self) -> dict[str, np.ndarray]:
        shape = self.shape
        named: dict[str, np.ndarray] = {
            "spike_encoder.embedding_table": self.embedding(),
            "attention.slopes": alibi_slopes(shape, self.numerics.score_frac),
            **self.head(),
        }
        for layer in range(shape.layers):
            named.update({f"blocks.{layer}.{name}": value for name, value in self.block().items()})
        return {name: named[name] for name, _ in tensor_names(shape, self.sites)}

    def threshold(self, site: str, rms: float, most: int) -> np.ndarray:
        """Threshold of an optional site whose input has about this rms; the scale is there already."""
        value = round(_quantile(self.density[site] / 2) * rms) if self.density[site] < 1 else 1
        return np.array([min(max(value, 1), most)], np.int32)

    def weights(self, rows: int, columns: int) -> np.ndarray:
        return self.rng.integers(-127, 128, (rows, columns), dtype=np.int8)

    def projection(self, rows: int, columns: int, input_rms: float, target: float) -> dict[str, np.ndarray]:
        """Requantised to an rms of `target` units; scales vary by channel."""
        acc_rms = WEIGHT_RMS * math.sqrt(columns) * max(input_rms, 1e-3)
        multiplier, shift = multiplier_shift(target / acc_rms * self.rng.uniform(0.7, 1.4, rows))
        return {"weight": self.weights(rows, columns), "multiplier": multiplier, "shift": shift}

    def embedding(self) -> np.ndarray:
        size = (self.shape.vocab, self.shape.width)
        x: np.ndarray
        if self.density["decay"] == 1:  # every step reaches the threshold
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
            "tcam.out_proj": self.projection(width, width, MIX_RMS, 3000),
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
                "weight": self.weights(width, width),
                "threshold": threshold.astype(np.int32),
                "multiplier": multiplier,
                "shift": shift,
            }
        named = {f"{part}.{leaf}": value for part, leaves in parts.items() for leaf, value in leaves.items()}
        named |= {
            "tcam.event": attention_event,
            "tcam.decay_beta": rng.integers(0, 65536, shape.heads).astype(np.uint16),
            "tcam.mix": mix_gains(rng.uniform(0.1, 0.9)),
            "ffn.event": ffn_event,
            "spike_threshold": self.thresholds(UNIT, density["decay"], width, -32768, 32767).astype(np.int16),
        }
        if "out" in self.sites:
            named["tcam.out_event"] = self.threshold("out", MIX_RMS, 127)
        return named

    def head(self) -> dict[str, np.ndarray]:
        shape = self.shape
        multiplier, shift = multiplier_shift(2.0**-7)  # Q4.11 to Q3.4
        prior = self.projection(shape.bottleneck, shape.width, 16, 16)
        return {
            "output_head.input": np.array([multiplier, shift], np.int32),
            **{f"output_head.prior_net.0.{leaf}": value for leaf, value in prior.items()},
            "output_head.gelu_table": gelu_values(4, 1 / 16, GELU_FLOOR if "head" in self.sites else 0),
            "output_head.fused.weight": self.weights(shape.vocab, shape.head_rows),
            "output_head.fused.scale": self.rng.integers(20000, 65536, shape.vocab).astype(np.uint16),
        } | ({"output_head.event": self.threshold("head", UNIT, 32767)} if "head" in self.sites else {})


# ---- calibrated models ---------------------------------------------------------------------------

# Densities of a trained model at SITES; `synthesize` scales them to the wanted average.
TRAINED_DENSITIES = (0.33, 0.17, 0.38, 0.05)
LAYER_SPREAD = 0.15  # layers differ by this share, as trained ones do
CALIBRATION = (2, 96)  # sequences and tokens
HEAD_ATTEMPTS = 20
VARIED = 4  # different tokens in the text that a head must give
DENSITY_TOLERANCE = 0.02
AIMS, HIGHEST_AIM = 4, 0.99  # attempts at a density, and the highest that is aimed at


def synthesize(shape: ModelShape, seed: int, density: float = 0.24) -> IntegerModel:
    """A random model whose thresholds are calibrated on its own activity: `calibrated` without the figure."""
    return calibrated(shape, seed, density)[0]


def calibrated(
    shape: ModelShape, seed: int, density: float = 0.24, sites: dict[str, float] | None = None
) -> tuple[IntegerModel, float]:
    """A random model whose thresholds are calibrated on its own activity, and the density that it reaches.

    Averaged over layers and sites, weighted by the weight bytes of each site, `density` of the event
    inputs are nonzero; sites and layers differ as in a trained model. Greedy text does not
    collapse into one token. A `UserError` when the shape cannot have the density, within
    `DENSITY_TOLERANCE`.

    `sites`: the mean densities of single sites of SITES, which then replace what `density` gives them, and of
    OPTIONAL_SITES (`head`: of the head's input a), which the model then has.
    """
    sites = sites or {}
    for name, value in (("density", density), *sites.items()):
        if not 0 < value < 1:
            raise UserError(f"{name} is {value}; a number between 0 and 1 is required")
    unknown = [site for site in sites if site not in (*SITES, *OPTIONAL_SITES)]
    if unknown:
        raise UserError(
            f"there is no event site {unknown[0]!r}; known: {', '.join((*SITES, *OPTIONAL_SITES))}"
        )
    if not set(sites) <= set(OPTIONAL_SITES):
        attempt = _Calibration(shape, seed, density, sites)
        attempt.refuse_missed(sites)
        return attempt.with_varied_text(), attempt.density
    aim = density
    for _ in range(AIMS):
        attempt = _Calibration(shape, seed, aim, sites)
        missed = density - attempt.density
        if abs(missed) <= DENSITY_TOLERANCE:
            attempt.refuse_missed(sites)
            return attempt.with_varied_text(), attempt.density
        if missed > 0 and aim == HIGHEST_AIM:
            break
        aim = min(
            max(aim + missed, density / 2), HIGHEST_AIM
        )  # some inputs cannot follow: the others do more
    raise UserError(
        f"no model of this shape has the density {density:g}: the nearest has {attempt.density:.3f}; "
        f"give --density {attempt.density:.2f}, or a wider shape"
    )


class _Calibration:
    """One model whose events have about the density `aim`, or that of `sites`; `density` is what they have,
    `by_site` the means of all sites."""

    def __init__(self, shape: ModelShape, seed: int, aim: float, sites: dict[str, float]):
        self._seed, self._rng = seed, np.random.default_rng(seed)
        rng = self._rng
        targets = layer_targets(shape, aim, rng)
        spread = targets[:, 0] / targets[:, 0].mean()
        for site, share in sites.items():
            if site in SITES:
                targets[:, SITES.index(site)] = np.minimum(share * spread, 0.99)
        wanted = dict(zip(SITES, targets.mean(axis=0), strict=True))
        wanted |= {site: share for site, share in sites.items() if site in OPTIONAL_SITES}
        self._maker = _Maker(shape, Numerics(), rng, wanted)
        tensors = self._maker.tensors()
        self._tokens = rng.integers(0, shape.vocab, CALIBRATION)
        numerics = calibrate_encoder(tensors["spike_encoder.embedding_table"], self._tokens, targets[0, 1])
        self._model = IntegerModel.from_tensors(shape, numerics, tensors)
        c, s = encode(self._model, self._tokens)
        active, out_active = np.zeros((shape.layers, len(SITES)), np.int64), np.zeros(shape.layers, np.int64)
        for layer, block in enumerate(self._model.blocks):
            out = min(sites["out"] * spread[layer], 0.99) if "out" in sites else None
            c, s, active[layer], out_active[layer] = calibrate_block(
                self._model, block, c, s, targets[layer], rng, out
            )
        inputs = np.array([shape.ffn if site == "down" else shape.width for site in SITES])
        densities = active / (inputs * self._tokens.size)
        self.density = weighted_density(densities, shape)
        self.by_site = dict(zip(SITES, densities.mean(axis=0).tolist(), strict=True))
        self.by_site["out"] = float(out_active.mean() / (shape.width * self._tokens.size))
        if "head" in sites:
            self.by_site["head"] = calibrate_head(self._model, c, sites["head"])

    def refuse_missed(self, sites: dict[str, float]) -> None:
        """A `UserError` when one of these sites cannot have its density."""
        for site, share in sites.items():
            if abs(self.by_site[site] - share) > DENSITY_TOLERANCE:
                raise UserError(
                    f"no model of this shape has the density {share:g} at {site}: the nearest has "
                    f"{self.by_site[site]:.3f}; give {site}={self.by_site[site]:.2f}, or a wider shape"
                )

    def with_varied_text(self) -> IntegerModel:
        """The model with a head whose greedy text has different tokens."""
        model, shape = self._model, self._model.shape
        for _ in range(HEAD_ATTEMPTS):
            run = Reference(model).generate(self._tokens[0, :4].tolist(), 8)
            if len(set(run.tokens)) >= min(VARIED, shape.vocab):
                # checks what calibration wrote
                return IntegerModel.from_tensors(shape, model.numerics, model.tensors())
            model.head.fused_weight[...] = self._maker.weights(*model.head.fused_weight.shape)
        raise UserError(
            f"seed {self._seed} gives no model of width {shape.width} and vocabulary {shape.vocab} with "
            "varied text; take a wider shape, or another seed"
        )


def layer_targets(shape: ModelShape, density: float, rng: np.random.Generator) -> np.ndarray:
    """Densities [L, 4] by layer and SITES whose weighted average is `density`."""
    spread = 1 + rng.uniform(-LAYER_SPREAD, LAYER_SPREAD, (shape.layers, 1))
    pattern = np.array(TRAINED_DENSITIES) * spread / spread.mean()
    low, high = 0.0, 1 / pattern.min()
    for _ in range(60):  # clipping makes the average a nonlinear but growing function of the factor
        middle = (low + high) / 2
        reached = weighted_density(np.minimum(pattern * middle, 0.99), shape) >= density
        low, high = (low, middle) if reached else (middle, high)
    return np.minimum(pattern * high, 0.99)
