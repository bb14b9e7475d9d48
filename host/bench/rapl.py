"""Power of the processor, from the energy counters of RAPL: packages, without memory and supply losses."""

import time
from collections.abc import Callable
from pathlib import Path

from .telemetry import Reading

POWERCAP = Path("/sys/class/powercap")
NO_RAPL = "no sensor: this machine shows no readable energy counter (/sys/class/powercap)"


class RaplSensor:
    """Mean power between two readings; the first reading has none, and begins the measurement.

    Parameters
    ----------
    packages : list of Path
        Folders with `energy_uj`, which wraps at `max_energy_range_uj`.
    clock : callable() -> float
        Seconds.
    """

    source = "rapl"

    def __init__(self, packages: list[Path], clock: Callable[[], float] = time.monotonic):
        self._packages, self._clock = packages, clock
        self._ranges = [int((package / "max_energy_range_uj").read_text()) for package in packages]
        self._last: tuple[float, list[int]] | None = None

    @classmethod
    def of(cls, folder: Path = POWERCAP) -> "RaplSensor | None":
        """The packages of this machine; None when their counters cannot be read (mostly they are root's)."""
        packages = sorted(path for path in folder.glob("*-rapl:*") if path.name.count(":") == 1)
        try:
            for package in packages:
                int((package / "energy_uj").read_text())
            return cls(packages) if packages else None
        except (OSError, ValueError):
            return None

    def read(self) -> Reading:
        now = self._clock()
        energies = [int((package / "energy_uj").read_text()) for package in self._packages]
        last, self._last = self._last, (now, energies)
        watts = None
        if last is not None and now > last[0]:
            spent = sum(
                (new - old) % span for new, old, span in zip(energies, last[1], self._ranges, strict=True)
            )
            watts = spent / 1e6 / (now - last[0])
        return Reading(watts, {}, " ".join(map(str, energies)))
