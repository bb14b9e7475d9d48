"""Power from RAPL's energy counters, on a made-up sysfs."""

import pytest

from symlight.host.bench.rapl import RaplSensor


@pytest.fixture
def packages(tmp_path):
    """Two packages, one with a core domain that must not count; energies are set with `write`."""
    for name in ("intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "max_energy_range_uj").write_text("1000000000\n")
        (tmp_path / name / "energy_uj").write_text("0\n")

    def write(*microjoules):
        for number, value in enumerate(microjoules):
            (tmp_path / f"intel-rapl:{number}" / "energy_uj").write_text(f"{value}\n")

    return tmp_path, write


def test_power_is_energy_over_time(packages):
    folder, write = packages
    times = iter([10.0, 12.0, 13.0])
    found = RaplSensor.of(folder)
    sensor = RaplSensor(found._packages, lambda: next(times))
    write(1_000_000, 2_000_000)
    assert sensor.read().watts is None
    write(21_000_000, 22_000_000)
    assert sensor.read().watts == pytest.approx(20.0)
    write(5_000_000, 32_000_000)  # the first counter wrapped: 984 and 10 joules
    assert sensor.read().watts == pytest.approx(994.0)


def test_counters_that_cannot_be_read(packages, tmp_path):
    folder, _ = packages
    (folder / "intel-rapl:1" / "energy_uj").write_text("secret")
    assert RaplSensor.of(folder) is None
    assert RaplSensor.of(tmp_path / "none") is None
