"""Changes to the logits before a token is chosen: only the host makes them (docs/arithmetic.md section 9).

The kernel never changes a logit. A run with penalties, bias or banned tokens is therefore token by token: the
host reads the logits of the whole vocabulary, changes them here, and chooses.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present

from .sampling import SamplerSettings, choose

PENALTY_FRAC = 16  # fraction bits of a repetition penalty
LOGIT_BITS = 48
MAX_BIAS = 1000.0


@dataclass(frozen=True, kw_only=True)
class Penalties:
    """What changes the logits. The default changes nothing.

    Parameters
    ----------
    repetition : float
        Logits of tokens that came before are divided by it where positive, else multiplied; 1: off.
    presence : float
        Subtracted from the logit of every token that was generated before.
    frequency : float
        Subtracted once for each time that the token was generated before.
    bias : mapping from token id to float
        Added to the logit.
    banned : set of int
        Never chosen.
    """

    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)
    banned: frozenset[int] = frozenset()

    def __post_init__(self):
        for name, low, high in (("repetition", 0.01, 100), ("presence", -100, 100), ("frequency", -100, 100)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise UserError(f"the {name} penalty is {value}; it must be in {low}..{high}")
        for token, value in self.bias.items():
            if not -MAX_BIAS <= value <= MAX_BIAS:
                raise UserError(f"the bias of token {token} is {value}; it must be in ±{MAX_BIAS:g}")
        object.__setattr__(self, "banned", frozenset(self.banned))

    @property
    def active(self) -> bool:
        return self != NO_PENALTIES

    def check(self, vocab: int, logit_scale: float | None) -> None:
        """A `UserError` unless they fit a model."""
        for token in [*self.bias, *self.banned]:
            if not 0 <= token < vocab:
                raise UserError(f"token {token} is outside the vocabulary 0..{vocab - 1} of the model")
        if len(self.banned) >= vocab:
            raise UserError("every token is banned; leave at least one")
        if logit_scale is None and (self.presence or self.frequency or self.bias):
            raise UserError(
                "the package does not say what one unit of its logits means (logit_scale), so a bias or a "
                "penalty in logits has no meaning; use only the repetition penalty and banned tokens"
            )


NO_PENALTIES = Penalties()


def penalised(
    logits: np.ndarray,
    penalties: Penalties,
    logit_scale: float | None,
    prompt: Iterable[int],
    generated: Iterable[int],
) -> np.ndarray:
    """Logits [V] after repetition, presence, frequency and bias, in this order, saturated to 48 bits.

    `prompt` and `generated` are the tokens of the turn so far. Repetition looks at both.
    """
    changed = np.array(logits, np.int64)
    counts = Counter(generated)
    factor = round(Fraction(penalties.repetition) * (1 << PENALTY_FRAC))
    if factor != 1 << PENALTY_FRAC:
        for token in {*prompt, *counts}:
            value = int(changed[token])
            scaled = (value << PENALTY_FRAC) // factor if value > 0 else value * factor >> PENALTY_FRAC
            changed[token] = _clamped(scaled)
    for token, count in counts.items():
        lowered = _units(penalties.presence, logit_scale) + count * _units(penalties.frequency, logit_scale)
        changed[token] = _clamped(int(changed[token]) - lowered)
    for token, bias in penalties.bias.items():
        changed[token] = _clamped(int(changed[token]) + _units(bias, logit_scale))
    return changed


def choose_penalised(
    logits: np.ndarray, penalties: Penalties, settings: SamplerSettings | None, position: int
) -> int:
    """The token from changed logits [V]: as `sampling.choose`, among the tokens that are not banned."""
    allowed = np.ones(len(logits), bool)
    allowed[list(penalties.banned)] = False
    ids = np.flatnonzero(allowed)
    return int(ids[choose(logits[ids], settings, position)])


def _units(value: float, logit_scale: float | None) -> int:
    return round(Fraction(value) / Fraction(present(logit_scale))) if value else 0


def _clamped(value: int) -> int:
    limit = 1 << (LOGIT_BITS - 1)
    return max(min(value, limit - 1), -limit)
