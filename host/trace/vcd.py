"""Reads a few signals out of a VCD file (IEEE 1364, chapter 18), one change at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from symlight.base.errors import UserError


class VcdSignals:
    """The wanted signals of a VCD file.

    Parameters
    ----------
    file : Path
    wanted : sequence of str
        Names with some of the scopes around them: "phase_counters.waiting". Each must match one signal.
    """

    def __init__(self, file: Path, wanted: Sequence[str]):
        self.file = file
        self._codes: dict[str, list[str]] = {}
        found = self._declarations()
        for name in wanted:
            matching = {code for full, code in found.items() if f".{full}".endswith(f".{name}")}
            if len(matching) != 1:
                raise UserError(f"{file}: {len(matching)} signals are called {name}, where one is expected")
            self._codes.setdefault(matching.pop(), []).append(name)

    def _declarations(self) -> dict[str, str]:
        """Full name -> identifier code."""
        found, scopes = {}, []
        with self.file.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if not words:
                    continue
                if words[0] == "$scope":
                    scopes.append(words[2])
                elif words[0] == "$upscope":
                    scopes.pop()
                elif words[0] == "$var":
                    found[".".join([*scopes, words[4]])] = words[3]
                elif words[0] == "$enddefinitions":
                    return found
        raise UserError(f"{self.file} is not a VCD file: its declarations do not end")

    def settled(self) -> Iterator[tuple[int, dict[str, int]]]:
        """(cycle, values of all signals) for every cycle at whose end one of them has changed.

        Even times 2 c hold the settled values of cycle c (sim.model.Model.trace). Unknown bits read as 0.
        """
        values: dict[str, int] = dict.fromkeys((name for names in self._codes.values() for name in names), 0)
        time, changed, begun = 0, False, False
        with self.file.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                if not begun:
                    begun = line.startswith("$enddefinitions")
                elif line[0] == "#":
                    if changed and time % 2 == 0:
                        yield time // 2, dict(values)
                        changed = False
                    time = int(line[1:])
                elif line[0] in "01xzXZ":
                    changed |= self._change(values, line[1:].strip(), line[0])
                elif line[0] in "bB":
                    bits, _, code = line[1:].partition(" ")
                    changed |= self._change(values, code.strip(), bits)
        if changed:
            yield time // 2, dict(values)

    def _change(self, values: dict[str, int], code: str, bits: str) -> bool:
        names = self._codes.get(code)
        if names is None:
            return False
        number = int("".join(bit if bit in "01" else "0" for bit in bits) or "0", 2)
        for name in names:
            values[name] = number
        return True
