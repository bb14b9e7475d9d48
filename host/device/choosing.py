"""What runs and turns are asked for besides tokens: how these are chosen, and which logits come back."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from symlight.base.errors import UserError
from symlight.model.penalties import NO_PENALTIES, Penalties, choose_penalised, penalised
from symlight.model.sampling import CANDIDATES, GREEDY, SamplerSettings, SamplingOptions, candidates


class Logits(enum.Enum):
    """Which logits a run gives back."""

    NONE = "none"
    CANDIDATES = "candidates"  # the K largest, for every generated token
    GENERATED = "generated"  # the whole vocabulary, for every generated token
    ALL = "all"  # the whole vocabulary, for every pass: prompt positions included


@dataclass(frozen=True)
class RunOptions:
    """How a run chooses tokens and what it gives back.

    `settings` None takes the largest logit.
    """

    settings: SamplerSettings | None = None
    logits: Logits = Logits.NONE


PLAIN = RunOptions()


@dataclass(frozen=True)
class TurnOptions:
    """How a turn chooses tokens and what it gives back; the defaults are greedy and plain."""

    sampling: SamplingOptions = GREEDY
    penalties: Penalties = NO_PENALTIES
    logits: Logits = Logits.NONE


@dataclass(frozen=True)
class Features:
    """What a machine can do besides greedy runs.

    Parameters
    ----------
    sampling : bool
        It draws tokens itself, so a sampled run is one run.
    logits : bool
        It gives logits back, and its pending token can be replaced: the host can choose token by token.
    """

    sampling: bool = False
    logits: bool = False


def check_options(name: str, features: Features, options: RunOptions) -> None:
    """A `UserError` unless a machine with `features` can do a run with `options`."""
    if options.settings is not None and not features.sampling:
        raise UserError(
            f"{name} cannot sample: its kernel takes the likeliest token; use temperature 0 or another device"
        )
    if options.logits is not Logits.NONE and not features.logits:
        raise UserError(f"{name} gives no logits back; use another device")


class HostChoice:
    """Chooses the tokens of one turn on the host, from whole logits, with penalties.

    Parameters
    ----------
    options : TurnOptions
    settings : SamplerSettings | None
        Of `options.sampling`.
    logit_scale : float | None
        Of the package.
    prompt : sequence of int
        Of the turn.
    """

    def __init__(
        self,
        options: TurnOptions,
        settings: SamplerSettings | None,
        logit_scale: float | None,
        prompt: Sequence[int],
    ):
        self._penalties, self._settings, self._scale = options.penalties, settings, logit_scale
        self._prompt = list(prompt)
        self._generated: list[int] = []

    def __call__(self, logits: np.ndarray, position: int) -> int:
        """The token at `position` from logits [V]."""
        changed = penalised(logits, self._penalties, self._scale, self._prompt, self._generated)
        chosen = choose_penalised(changed, self._penalties, self._settings, position)
        self._generated.append(chosen)
        return chosen


def logit_row(logits: np.ndarray, wanted: Logits) -> np.ndarray:
    """What a result holds of one head evaluation: logits [V], or candidates [K, 2]."""
    return np.stack(candidates(logits), axis=1) if wanted is Logits.CANDIDATES else logits


class LogitFields(TypedDict, total=False):
    """Fields of a `RunResult`."""

    logits: np.ndarray | None
    candidates: np.ndarray | None


def logit_fields(rows: list[np.ndarray], wanted: Logits, vocab: int) -> LogitFields:
    """The field of a `RunResult` that holds `rows`."""
    if wanted is Logits.NONE:
        return {}
    if wanted is Logits.CANDIDATES:
        return {"candidates": np.stack(rows) if rows else np.zeros((0, min(CANDIDATES, vocab), 2), np.int64)}
    return {"logits": np.stack(rows) if rows else np.zeros((0, vocab), np.int64)}
