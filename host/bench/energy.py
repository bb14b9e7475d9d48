"""Energy out of power readings and times: pure functions, in watts, joules, seconds and generated tokens.

Equations 8 to 10 of the SymbolicLight V2 paper (sections 3.5 and 4.1), and its integration rule (4.2):
trapezoids over distinct samples, with the power at both ends of a window interpolated between the samples
around them. docs/measuring.md says what is measured with it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from symlight.base.errors import UserError

# seconds between two measurements of the card's sensors; reading more often repeats them
REFRESH = 1.0
REPEATED = 1.5  # refreshes that an equal reading stands for before it counts as measured again
MAX_GAP = 5.0  # seconds between two samples that a window may contain
MIN_SAMPLES = 5  # distinct samples inside a window, so that its ends do not decide


class NotCovered(UserError):
    """The samples do not say what the power in a window was."""


def new_readings(times: Sequence[float], readings: Sequence[Hashable], refresh: float = REFRESH) -> list[int]:
    """Indices of the samples that are measurements of their own.

    A sensor that refreshes once a second answers the same in between. So a reading counts when it differs
    from the last one that counted, or when that one is so old that the sensor must have measured the same
    again.
    """
    kept: list[int] = []
    for i, (time, reading) in enumerate(zip(times, readings, strict=True)):
        if not kept or reading != readings[kept[-1]] or time - times[kept[-1]] >= REPEATED * refresh:
            kept.append(i)
    return kept


def energy(
    times: Sequence[float],
    watts: Sequence[float],
    begin: float,
    end: float,
    *,
    max_gap: float = MAX_GAP,
    min_samples: int = MIN_SAMPLES,
) -> float:
    """Joules between `begin` and `end`, out of distinct samples in order of time.

    `NotCovered` unless there is a sample at or before `begin` and one at or after `end`, enough of them
    inside, and no gap.
    """
    t, p = np.asarray(times, float), np.asarray(watts, float)
    if t.shape != p.shape or t.ndim != 1 or not np.all(np.diff(t) > 0) or not end > begin:
        raise ValueError("samples must be in order of time, and the window's end after its beginning")
    first, last = int(np.searchsorted(t, begin, "right")) - 1, int(np.searchsorted(t, end, "left"))
    if first < 0 or last == len(t):
        raise NotCovered("the sensor was not read on both sides of the window")
    inside = slice(first + 1, last)  # strictly between the ends
    if last - first - 1 < min_samples:
        raise NotCovered(
            f"{last - first - 1} sensor readings in {end - begin:.1f} s are too few; measure for longer"
        )
    gap = float(np.diff(t[first : last + 1]).max())
    if gap > max_gap:
        raise NotCovered(f"the sensor gave nothing new for {gap:.1f} s")
    edges = np.concatenate(([begin], t[inside], [end]))
    power = np.interp(edges, t, p)
    return float(np.sum(np.diff(edges) * (power[1:] + power[:-1]) / 2))


def mean_power(times: Sequence[float], watts: Sequence[float], begin: float, end: float, **limits) -> float:
    """Mean watts between `begin` and `end`: the energy over the duration."""
    return energy(times, watts, begin, end, **limits) / (end - begin)


@dataclass(frozen=True)
class Split:
    """Joules a generated token (equation 8): gross = idle share + incremental."""

    gross: float
    idle_share: float
    incremental: float


def split(active_watts: float, idle_watts: float, tokens_per_second: float) -> Split:
    """Equation 8: the energy of a token, and what of it the loaded idle power would have taken in the same
    time."""
    return Split(
        active_watts / tokens_per_second,
        idle_watts / tokens_per_second,
        (active_watts - idle_watts) / tokens_per_second,
    )


def decode_rate(tokens: int, decode_seconds: float) -> float:
    """Equation 9: generated tokens a second of decoding."""
    return tokens / decode_seconds


def request_rate(tokens: int, prefill_seconds: float, decode_seconds: float) -> float:
    """Equation 10: generated tokens a second of the whole request; prompt tokens are not counted, their time
    is."""
    return tokens / (prefill_seconds + decode_seconds)


def spread(values: Sequence[float]) -> float:
    """(max - min) / median: how far rounds are apart."""
    return (max(values) - min(values)) / median(values)
