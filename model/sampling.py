"""How a token is chosen from the logits: integers only (docs/arithmetic.md, "Choosing a token").

    logits -> K candidates in order -> weights -> top_k, min_p, top_p -> a draw keyed by (seed, position)

`SamplingOptions` is what a person asks for, `SamplerSettings` what the arithmetic uses. Every engine calls
these functions or is compared with them. Weights are int64 with `WEIGHT_FRAC` fraction bits, and the largest
weight is always exactly 1.
"""

import math
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np

from symlight.base.errors import UserError

from . import ops

CANDIDATES = 64  # K: only the K largest logits can be drawn
WEIGHT_FRAC = 24  # a weight of 2^24 is 1
EXP_INDEX_BITS = 10  # fraction bits of an exponent, which address the table
EXP_FRAC = 17  # fraction bits of a table entry
OCTAVES_BITS = 17  # an exponent saturates here, far beyond the last nonzero weight
DISTANCE_BITS = 26  # bits of a distance that reach the multiplier
MULTIPLIER_BITS = 17
MAX_SHIFT = 63
PROBABILITY_FRAC = 16  # fraction bits of top_p
SEED_BITS = 64
LOG2_E = Fraction(6196328019, 1 << 32)  # log2(e), rounded to 32 fraction bits
MAX_TEMPERATURE = 1000.0


# ---- settings --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How tokens are chosen. The default is greedy; a `UserError` names a value that makes no sense.

    Parameters
    ----------
    temperature : float
        0 takes the largest logit. Above 0, logits are divided by it before a token is drawn.
    top_k : int
        Keep the `top_k` most likely tokens, at most `CANDIDATES`; 0 keeps `CANDIDATES`.
    top_p : float
        Keep the fewest most likely tokens whose probabilities sum to at least `top_p`, in (0, 1].
    min_p : float
        Keep tokens at least `min_p` times as likely as the most likely one, in [0, 1].
    seed : int
        Key of the random numbers, 0 .. 2^64 - 1. One seed gives one text.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self):
        for name in ("temperature", "top_p", "min_p"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise UserError(f"{name} is {value!r}; a number is required")
        for name in ("top_k", "seed"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise UserError(f"{name} is {value!r}; a whole number is required")
        if not 0 <= self.temperature <= MAX_TEMPERATURE:
            raise UserError(
                f"temperature is {self.temperature}; it must be 0 (greedy) or at most {MAX_TEMPERATURE:g}"
            )
        if not 0 <= self.top_k <= CANDIDATES:
            raise UserError(
                f"top_k is {self.top_k}; at most {CANDIDATES} tokens can be kept (0 keeps {CANDIDATES})"
            )
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; it must be above 0 and at most 1 (1 keeps every token)")
        if not 0 <= self.min_p <= 1:
            raise UserError(f"min_p is {self.min_p}; it must be in 0..1 (0 keeps every token)")
        if not 0 <= self.seed < 1 << SEED_BITS:
            raise UserError(f"seed is {self.seed}; it must be in 0..2^{SEED_BITS} - 1")

    @property
    def greedy(self) -> bool:
        """Whether the token is the argmax, whatever the other values are."""
        return self.temperature == 0

    def with_seed(self, seed: int) -> "SamplingOptions":
        return replace(self, seed=seed)

    def to_json(self) -> dict:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict, source: str = "sampling options") -> "SamplingOptions":
        unknown = set(data) - set(cls.__dataclass_fields__)
        if unknown:
            raise UserError(f"{source}: {sorted(unknown)[0]!r} is unknown")
        return cls(**data)


GREEDY = SamplingOptions()


@dataclass(frozen=True, kw_only=True)
class SamplerSettings:
    """The integers of a sampled run. `scaling` makes multiplier and shift; the rest are rounded options."""

    multiplier: int  # 0 .. 2^17 - 1
    shift: int  # 1 .. 63
    top_k: int  # 1 .. CANDIDATES
    min_weight: int  # 0 .. 2^24
    top_p: int  # 1 .. 2^16
    seed: int  # 64 bits

    @classmethod
    def of(cls, options: SamplingOptions, logit_scale: float | None) -> "SamplerSettings":
        """The settings of `options` for logits of which one unit is `logit_scale`."""
        if options.greedy:
            raise ValueError("temperature 0 has no sampler settings: it is the argmax")
        if logit_scale is None:
            raise UserError(
                "the package does not say what one unit of its logits means (logit_scale), so a temperature "
                "has no meaning; use temperature 0"
            )
        multiplier, shift = scaling(logit_scale, options.temperature)
        return cls(
            multiplier=multiplier,
            shift=shift,
            top_k=options.top_k or CANDIDATES,
            min_weight=round(Fraction(options.min_p) * (1 << WEIGHT_FRAC)),
            top_p=max(1, round(Fraction(options.top_p) * (1 << PROBABILITY_FRAC))),
            seed=options.seed,
        )


def scaling(logit_scale: float, temperature: float) -> tuple[int, int]:
    """(multiplier, shift): multiplier / 2^shift is the exponent's step, 2^-10 octaves, of one logit unit."""
    rate = Fraction(logit_scale) * LOG2_E * (1 << EXP_INDEX_BITS) / Fraction(temperature)
    floor_log2 = rate.numerator.bit_length() - rate.denominator.bit_length()
    if rate < Fraction(2) ** floor_log2:
        floor_log2 -= 1
    shift = min(max(MULTIPLIER_BITS - 1 - floor_log2, 1), MAX_SHIFT)
    return min(round(rate * (1 << shift)), (1 << MULTIPLIER_BITS) - 1), shift


# ---- candidates ------------------------------------------------------------------------------------------


def candidates(logits: np.ndarray, count: int = CANDIDATES) -> tuple[np.ndarray, np.ndarray]:
    """(ids, logits) of the `count` largest of logits [V], largest first, equal ones by increasing id."""
    logits = np.asarray(logits, np.int64)
    if len(logits) > count:
        least = np.partition(logits, len(logits) - count)[len(logits) - count]
        ids = np.flatnonzero(logits >= least)
    else:
        ids = np.arange(len(logits))
    ids = ids[np.argsort(-logits[ids], kind="stable")][:count]
    return ids, logits[ids]


# ---- weights ---------------------------------------------------------------------------------------------


@cache
def exp_table() -> np.ndarray:
    """EXP[i] = 2^(17 - i / 1024), rounded half up, for i = 0 .. 1023."""
    with localcontext() as context:
        context.prec = 40  # no exact value is nearer than 4e-5 to a tie
        size = 1 << EXP_INDEX_BITS
        exact = (Decimal(2) ** (EXP_FRAC - Decimal(index) / size) for index in range(size))
        table = np.array([int(value.to_integral_value(ROUND_HALF_UP)) for value in exact], np.int64)
    table.flags.writeable = False
    return table


def exponents(distances, multiplier: int, shift: int) -> np.ndarray:
    """Octaves below the largest logit with 10 fraction bits; distances 0 .. 2^49 - 1 in logit units."""
    coarse = max(shift - DISTANCE_BITS, 0)
    fine = shift - coarse
    d = np.minimum(np.asarray(distances, np.int64) >> coarse, (1 << DISTANCE_BITS) - 1)
    return np.minimum(ops.rnd(d * multiplier, fine), (1 << OCTAVES_BITS) - 1)


def weights(distances, multiplier: int, shift: int) -> np.ndarray:
    """2^-exponent with 24 fraction bits, truncated: 2^24 at distance 0, and 0 beyond 24 octaves."""
    y = exponents(distances, multiplier, shift)
    mantissa = exp_table()[y & ((1 << EXP_INDEX_BITS) - 1)] << (WEIGHT_FRAC - EXP_FRAC)
    return mantissa >> np.minimum(y >> EXP_INDEX_BITS, WEIGHT_FRAC + 1)


def kept(candidate_weights: np.ndarray, settings: SamplerSettings) -> int:
    """How many of the ordered weights stay: `top_k`, then `min_p`, then `top_p` of what these two leave."""
    w = candidate_weights[: settings.top_k]
    # the largest one always stays
    w = w[: max(1, int(np.count_nonzero(w >= settings.min_weight)))]
    sums = np.cumsum(w)
    return int(np.searchsorted(sums << PROBABILITY_FRAC, settings.top_p * int(sums[-1]))) + 1


# ---- random numbers --------------------------------------------------------------------------------------

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
_MASK = 0xFFFFFFFF


def threefry(seed: int, counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds (Salmon et al., SC 2011): two words of 32 bits of key and counter."""
    low, high = seed & _MASK, seed >> 32
    keys = (low, high, PARITY ^ low ^ high)
    x, y = (counter[0] + low) & _MASK, (counter[1] + high) & _MASK
    for number in range(ROUNDS):
        x = (x + y) & _MASK
        rotation = ROTATIONS[number % 8]
        y = ((y << rotation) & _MASK | y >> (32 - rotation)) ^ x
        if number % 4 == 3:
            step = number // 4 + 1
            x = (x + keys[step % 3]) & _MASK
            y = (y + keys[(step + 1) % 3] + step) & _MASK
    return x, y


def random_word(seed: int, position: int) -> int:
    """The 32 random bits of the token at `position` of the sequence; nothing else enters."""
    return threefry(seed, (position, 0))[0]


# ---- the choice ------------------------------------------------------------------------------------------


def draw(candidate_weights: np.ndarray, word: int) -> int:
    """Index of the drawn weight: the first whose running sum exceeds word / 2^32 of the total."""
    sums = np.cumsum(candidate_weights)
    return int(np.searchsorted(sums, int(sums[-1]) * word >> 32, side="right"))


def choose_candidate(ids, values, settings: SamplerSettings, position: int) -> int:
    """Token drawn from ordered candidates (ids, logits) for `position`, the token's own."""
    w = weights(values[0] - values, settings.multiplier, settings.shift)
    return int(ids[draw(w[: kept(w, settings)], random_word(settings.seed, position))])


def choose(logits: np.ndarray, settings: SamplerSettings | None, position: int) -> int:
    """The token at `position` from logits [V]: the argmax without settings, else a draw."""
    if settings is None:
        return ops.argmax(logits)
    return choose_candidate(*candidates(logits), settings, position)


# ---- likelihood ------------------------------------------------------------------------------------------


def log_probabilities(logits: np.ndarray, logit_scale: float | None) -> np.ndarray:
    """Log-softmax over the last axis of integer logits [..., V], of which one unit is `logit_scale`.

    Natural logarithms in float64 of the model's own distribution: temperature, truncation and penalties do
    not enter.
    """
    if logit_scale is None:
        raise UserError(
            "the package does not say what one unit of its logits means (logit_scale), so there are no "
            "log-probabilities; ask for the integer logits"
        )
    logits = np.asarray(logits, np.int64)
    x = (logits - logits.max(axis=-1, keepdims=True)) * logit_scale
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
