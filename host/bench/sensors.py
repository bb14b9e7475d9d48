"""Which sensor says what a machine draws."""

from ..device.cpu_machine import CpuMachine
from ..device.machine import Machine
from .rapl import NO_RAPL, RaplSensor
from .telemetry import Sensor, find_sensor


def sensor_of(machine: Machine) -> tuple[Sensor | None, str]:
    """The sensor of what the machine runs on, and a sentence about it."""
    if isinstance(machine, CpuMachine):
        rapl = RaplSensor.of()
        return rapl, NO_RAPL if rapl is None else "power of the processor's packages by RAPL"
    return find_sensor(machine.card if hasattr(machine, "card") else None)
