"""What the sensors of a card say, in the shapes of XRT and of the driver's hwmon folder, and the thread that
reads them."""

import json
import threading
import time

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.bench.energy import NotCovered, mean_power
from symlight.host.bench.telemetry import (
    HwmonSensor,
    Reading,
    Sample,
    Sampler,
    Series,
    XrtSensor,
    board_watts,
    find_sensor,
    temperatures,
)
from tests.benches.host import sensor_shapes as shapes

pytestmark = pytest.mark.timeout(60)


class StubCard:
    """`host.device.card.Card`'s `info`: answers by name."""

    def __init__(self, electrical="{}", thermal="{}", bdf="0000:3b:00.1"):
        self.answers = {"electrical": electrical, "thermal": thermal, "bdf": bdf, "name": "a_card"}

    def info(self, what: str) -> str:
        return self.answers[what]


# ---- shapes ----


def test_board_power_out_of_xrts_answer():
    assert board_watts(shapes.electrical(28.534)) == 28.534


@pytest.mark.parametrize("text", [
    shapes.electrical("N/A"), shapes.electrical("NA"), shapes.electrical("nan"), shapes.electrical(""),
    shapes.electrical("0.000000"),
    "", "{}", "[]", "no json", "null", '{"power_consumption_watts": null}',
    '{"power_consumption_watts": ["1"]}',
])  # fmt: skip
def test_a_card_that_gives_no_power(text):
    """ "N/A" is what XRT says when the query fails; 0 is what a sensor that is not there reads."""
    assert board_watts(text) is None


def test_temperatures_of_the_sensors_that_are_there():
    assert temperatures(shapes.thermal(71, 66)) == {"pcb_top_front": 41, "fpga0": 71, "fpga_hbm": 66}
    for text in (
        "",
        "{}",
        "[]",
        '{"thermals": ""}',
        '{"thermals": {"error_msg": "Information unavailable"}}',
        '{"thermals": [1]}',
    ):
        assert temperatures(text) == {}


def test_the_whole_answer_tells_new_from_old():
    """Board power may stay the same to the last digit when a rail has moved."""
    readings = [
        XrtSensor(StubCard(shapes.electrical(25, amps), shapes.thermal())).read() for amps in (1.5, 1.5, 1.6)
    ]
    assert len({reading.text for reading in readings}) == 2
    series = Series([Sample(0.25 * i, reading) for i, reading in enumerate(readings)])
    assert series.new() == [0, 2]


def hwmon(folder, power="28534000", name="xilinx_u50_user"):
    node = folder / "0000:3b:00.1" / "hwmon" / "hwmon3"
    node.mkdir(parents=True)
    files = {
        "name": name,
        "in0_input": "12100",
        "curr1_input": "1500",
        "temp4_label": "FPGA TEMP",
        "temp4_input": "71000",
    }
    files |= {"temp11_label": "QSPF 0", "temp11_input": "0"} | (
        {} if power is None else {"power1_input": power}
    )
    for file, text in files.items():
        (node / file).write_text(text + "\n")
    return node


def test_hwmon_shows_the_same(tmp_path):
    node = hwmon(tmp_path)
    sensor = HwmonSensor.of("0000:3b:00.1", tmp_path)
    reading = sensor.read()
    assert reading.watts == 28.534 and reading.temperatures == {"FPGA TEMP": 71.0}
    (node / "curr1_input").write_text("1501\n")
    assert sensor.read().text != reading.text
    (node / "power1_input").unlink()
    assert sensor.read().watts is None


def test_a_card_without_hwmon(tmp_path):
    assert HwmonSensor.of("0000:3b:00.1", tmp_path) is None
    hwmon(tmp_path, power=None)
    assert HwmonSensor.of("0000:3b:00.1", tmp_path) is None


def test_the_sensor_that_gives_power_is_found(tmp_path):
    card = StubCard(shapes.electrical(20.5), shapes.thermal())
    sensor, about = find_sensor(card, tmp_path)
    assert (sensor.source, about) == ("xrt", "board power by XRT")
    card = StubCard(shapes.electrical("N/A"))
    assert find_sensor(card, tmp_path) == (None, "the card at 0000:3b:00.1 (a_card) has no power sensor")
    hwmon(tmp_path)
    assert find_sensor(card, tmp_path)[0].source == "hwmon"
    assert find_sensor(None) == (None, "this device is no card and has no sensor")


def test_a_sensor_that_cannot_be_asked_is_none(tmp_path):
    class Refusing(StubCard):
        def info(self, what):
            if what == "thermal":
                raise UserError("asking the device for thermal failed")
            return super().info(what)

    card = Refusing(shapes.electrical(20.5))
    assert find_sensor(card, tmp_path)[0] is None
    hwmon(tmp_path)
    assert find_sensor(card, tmp_path)[0].source == "hwmon"


# ---- series ----


def at(time, watts, **warm):
    return Sample(time, Reading(watts, warm, str(watts)))


def test_samples_without_power_are_no_measurements():
    series = Series([at(0, 20.0), at(0.25, None), at(0.5, 20.0), at(1.0, 21.0), at(1.25, None)])
    assert series.new() == [0, 3] and series.power() == ([0, 1.0], [20.0, 21.0])


def test_temperatures_of_a_window():
    series = Series([at(i, 20.0, fpga0=70 + i) for i in range(6)])
    assert series.temperatures(1, 3) == {"fpga0": {"mean": 72.0, "max": 73}}
    assert series.temperatures(10, 12) == {}


# ---- the thread ----


class Refreshing:
    """A sensor that measures a linear power every 20 ms, so that a test need not wait for seconds."""

    source, refresh = "test", 0.02

    def __init__(self):
        self.start, self.threads, self.broken = time.monotonic(), set(), False

    def read(self):
        self.threads.add(threading.get_ident())
        if self.broken:
            raise UserError("the sensor does not answer")
        tick = int((time.monotonic() - self.start) / self.refresh)
        watts = 20 + tick * self.refresh
        return Reading(watts, {"fpga0": 70.0}, str(watts))


def until(condition, seconds=30):
    """Keep Python's lock as a host does that waits for a run, until the condition holds; the time then."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
    return time.monotonic()


def test_the_sampler_reads_while_others_work():
    sensor = Refreshing()
    sampler = Sampler(sensor, period=0.004)
    sampler.series.refresh = sensor.refresh
    with sampler:
        begin = until(lambda: sampler.series.samples)
        end = until(lambda: len(sampler.snapshot().power()[0]) >= 12)
        until(lambda: sampler.has_past(end))
    times, watts = sampler.snapshot().power()
    assert threading.get_ident() not in sensor.threads and len(sensor.threads) == 1
    # Power grows by 1 W/s, so a reading is off by its age: a refresh, and what the machine lets it wait.
    late = sensor.refresh + max(np.diff(times))
    expected = 20 + (begin + end) / 2 - sensor.start
    assert mean_power(times, watts, begin, end, max_gap=30) == pytest.approx(expected, abs=late)
    count = len(sampler.series.samples)
    time.sleep(0.05)
    assert len(sampler.series.samples) == count, "the thread goes on after its end"


def test_readings_that_fail_are_counted_and_leave_a_gap():
    sensor = Refreshing()
    sampler = Sampler(sensor, period=0.005)
    sampler.series.refresh = sensor.refresh
    with sampler:
        begin = until(lambda: len(sampler.series.samples) > 5)
        sensor.broken = True
        broken = time.monotonic()
        mended = until(lambda: sampler.failed >= 5 and time.monotonic() > broken + 0.1)
        sensor.broken = False
        end = until(lambda: sampler.has_past(mended))
        until(lambda: sampler.has_past(end))
    assert sampler.failed >= 5
    with pytest.raises(NotCovered, match="nothing new"):
        mean_power(*sampler.snapshot().power(), begin, end, max_gap=0.09, min_samples=0)


def test_the_simulated_card_has_the_shape_and_no_numbers():
    """What pyxrt_sim answers, through the driver's own `info`."""
    from symlight.sim.card import SimCard
    from symlight.sim.options import SimOptions
    from symlight.sim.pyxrt.device import device
    from symlight.sim.pyxrt.types import xrt_info_device

    opened = device()
    opened._found, opened._index = SimCard(SimOptions()), 0
    answers = {name: opened.get_info(xrt_info_device[name]) for name in ("electrical", "thermal")}
    assert json.loads(answers["electrical"]).keys() == json.loads(shapes.electrical(1)).keys()
    assert board_watts(answers["electrical"]) is None and temperatures(answers["thermal"]) == {}
