"""Reads a few signals out of a waveform file (VCD or FST), one change at a time."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pywellen

from symlight.base.errors import UserError


class WaveSignals:
    """The wanted signals of a waveform file.

    Parameters
    ----------
    file : Path
    wanted : sequence of str
        Names with some of the scopes around them: "phase_counters.waiting". Each must match one signal.

    Raises
    ------
    UserError
        The file is no waveform, or a name matches no signal or several.
    """

    def __init__(self, file: Path, wanted: Sequence[str]):
        try:
            found = pywellen.Waveform(str(file)).all_vars()
        except (RuntimeError, OSError) as fault:
            raise UserError(f"{file} is not a waveform file: {fault}") from None
        self._signals = {}
        for name in wanted:
            # A signal that passes through several scopes has one identifier; only its text can be compared.
            matching = {str(one.signal_id): one for one in found if f".{one.full_name}".endswith(f".{name}")}
            if len(matching) != 1:
                raise UserError(f"{file}: {len(matching)} signals are called {name}, where one is expected")
            self._signals[name] = matching.popitem()[1].signal

    def settled(self) -> Iterator[tuple[int, dict[str, int]]]:
        """(cycle, values of all signals) for every cycle at whose end one of them has changed.

        Times 2 c - 1 and 2 c are those of cycle c (sim.model.Model.trace). Unknown bits read as 0.
        """
        values = dict.fromkeys(self._signals, 0)
        changes = sorted(
            (
                (-(-time // 2), time, name, value)
                for name, one in self._signals.items()
                for time, value in one
            ),
            key=itemgetter(0, 1),
        )
        for cycle, together in groupby(changes, key=itemgetter(0)):
            values |= {name: _number(value) for _, _, name, value in together}
            yield cycle, dict(values)


def _number(value: int | str) -> int:
    """A number from the reader: a text where a bit is unknown."""
    if isinstance(value, int):
        return value
    return int("".join(bit if bit in "01" else "0" for bit in value) or "0", 2)
