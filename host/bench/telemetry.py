"""The sensors of a card: what they say, and a thread that writes it down.

Board power is that of the card's inputs (12 V and 3.3 V of the slot), in watts; temperatures in degrees
Celsius by location. The card measures once a second whoever asks; all readings are kept, and
`host.bench.energy.new_readings` finds those that are measurements of their own.
"""

import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from symlight.base.errors import UserError
from symlight.base.optional import present

from ..device.card import KernelCard
from .energy import REFRESH, REPEATED, new_readings

PERIOD = 0.25  # seconds between two looks: a new measurement is seen that late at most
PCI = Path("/sys/bus/pci/devices")


@dataclass(frozen=True)
class Reading:
    """One answer of the sensors; `watts` is None where the card does not say. `text`: all of it, to tell new
    answers from old ones."""

    watts: float | None
    temperatures: dict[str, float]
    text: str


class Sensor(Protocol):
    """`source` names it for the record."""

    source: str

    def read(self) -> Reading: ...


def _number(text: object) -> float | None:
    """Sensor values are text, and "N/A" or worse when there is none."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _object(text: str) -> dict:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def board_watts(electrical: str) -> float | None:
    """Board power out of the JSON of `xrt_info_device.electrical`; None if the card does not say. No card
    draws 0 W."""
    return _number(_object(electrical).get("power_consumption_watts")) or None


def temperatures(thermal: str) -> dict[str, float]:
    """Location -> degrees Celsius out of the JSON of `xrt_info_device.thermal`, of the sensors that are
    there."""
    entries = _object(thermal).get("thermals")
    found = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("is_present") == "true":
            value = _number(entry.get("temp_C"))
            if value is not None:
                found[str(entry.get("location_id"))] = value
    return found


class XrtSensor:
    """The sensors as XRT answers: `device.get_info`."""

    source = "xrt"

    def __init__(self, card: KernelCard):
        self._card = card

    def read(self) -> Reading:
        electrical, thermal = self._card.info("electrical"), self._card.info("thermal")
        return Reading(board_watts(electrical), temperatures(thermal), electrical)


class HwmonSensor:
    """The same sensors as the kernel driver's hwmon folder shows them: microwatts and thousandths of a
    degree."""

    source = "hwmon"

    def __init__(self, folder: Path):
        self._folder = folder

    @classmethod
    def of(cls, bus_address: str, devices: Path = PCI) -> "HwmonSensor | None":
        """The folder of a card, None if its driver has none with board power."""
        folders = sorted((devices / bus_address / "hwmon").glob("hwmon*"))
        return next((cls(folder) for folder in folders if (folder / "power1_input").is_file()), None)

    def _value(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text().strip()
        except OSError:
            return None

    def read(self) -> Reading:
        power = self._value("power1_input")
        microwatts = _number(power)
        warm = {}
        for label in sorted(self._folder.glob("temp*_label")):
            name, value = self._value(label.name), _number(self._value(label.name.replace("label", "input")))
            if name and value:  # 0: not on this card
                warm[name] = value / 1000
        # Voltages and currents change when power does not.
        lines = [
            f"{file.name} {self._value(file.name)}" for file in sorted(self._folder.glob("[ic][nu]*_input"))
        ]
        return Reading(microwatts / 1e6 if microwatts else None, warm, "\n".join([str(power), *lines]))


def find_sensor(card: KernelCard | None, devices: Path = PCI) -> tuple[Sensor | None, str]:
    """The sensor of a card and a sentence about it; None if there is none that gives board power."""
    if card is None:
        return None, "this device is no card and has no sensor"
    sensor = XrtSensor(card)
    if _gives_power(sensor):
        return sensor, "board power by XRT"
    address = card.info("bdf")
    hwmon = HwmonSensor.of(address, devices)
    if hwmon is not None and _gives_power(hwmon):
        return hwmon, "board power by the driver's hwmon folder: XRT gives none"
    return None, f"the card at {address} ({card.info('name')}) has no power sensor"


def _gives_power(sensor: Sensor) -> bool:
    try:
        return sensor.read().watts is not None
    except (UserError, OSError):
        return False


@dataclass(frozen=True)
class Sample:
    """A reading and when it was taken: seconds of `time.monotonic`, between asking and answer."""

    time: float
    reading: Reading


@dataclass
class Series:
    """Samples of one sensor in order of time, and the measurements of their own among them."""

    samples: list[Sample] = field(default_factory=list)
    refresh: float = REFRESH

    def new(self) -> list[int]:
        """Indices of the samples that are measurements of their own and have a power."""
        known = [i for i, sample in enumerate(self.samples) if sample.reading.watts is not None]
        kept = new_readings(
            [self.samples[i].time for i in known], [self.samples[i].reading.text for i in known], self.refresh
        )
        return [known[k] for k in kept]

    def power(self) -> tuple[list[float], list[float]]:
        """Times and watts of the measurements."""
        chosen = [self.samples[i] for i in self.new()]
        return [sample.time for sample in chosen], [present(sample.reading.watts) for sample in chosen]

    def temperatures(self, begin: float, end: float) -> dict[str, dict[str, float]]:
        """Location -> mean and highest temperature of a window."""
        found: dict[str, list[float]] = {}
        for sample in self.samples:
            if begin <= sample.time <= end:
                for name, value in sample.reading.temperatures.items():
                    found.setdefault(name, []).append(value)
        return {
            name: {"mean": sum(values) / len(values), "max": max(values)} for name, values in found.items()
        }


class Sampler:
    """Reads a sensor in a thread of its own from `with` to its end.

    A reading that fails is left out and counted in `failed`: a gap shows in the samples, and
    `host.bench.energy`
    refuses to bridge a long one.
    """

    def __init__(self, sensor: Sensor, period: float = PERIOD, clock: Callable[[], float] = time.monotonic):
        self.sensor, self.series, self.failed = sensor, Series(), 0
        self._period, self._clock = period, clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sensor", daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join(self.patience)  # a sensor that never answers must not hold up the end

    def _run(self) -> None:
        while True:
            begin = self._clock()
            try:
                reading = self.sensor.read()
            except (UserError, OSError):
                self.failed += 1
            else:
                self.series.samples.append(Sample((begin + self._clock()) / 2, reading))
            if self._stop.wait(self._period):
                return

    def snapshot(self) -> Series:
        """The samples so far."""
        return Series(list(self.series.samples), self.series.refresh)

    @property
    def patience(self) -> float:
        """Seconds after which a sensor has fallen silent."""
        return 4 * REPEATED * self.series.refresh

    def has_past(self, moment: float) -> bool:
        """Whether there is a measurement after `moment`."""
        times, _ = self.snapshot().power()
        return bool(times) and times[-1] >= moment
