"""The measuring protocol as a command, on a fake card with sensors."""

import csv
import importlib.util
import io
import json
import sys
from types import SimpleNamespace

import pytest

from tests.benches.host import sensor_shapes as shapes

pytestmark = pytest.mark.timeout(120)


class Wired:
    """Sensors of the fake card: 25 W and a new answer every time it is asked."""

    def __init__(self, watts="25.0"):
        self.asked, self.watts = 0, watts

    def __call__(self, what):
        self.asked += 1
        answers = {
            "name": "fake_card",
            "bdf": "0000:3b:00.1",
            "max_clock_frequency_mhz": "0",
            "thermal": shapes.thermal(),
        }
        return answers.get(what) or shapes.electrical(self.watts, 1 + self.asked / 1000)


@pytest.fixture
def wired(fake_pyxrt, monkeypatch):
    """The fake card behind `import pyxrt`, with sensors."""
    sensors, api = Wired(), sys.modules["pyxrt"]
    monkeypatch.setattr(api.device, "get_info", lambda self, what: sensors(what))
    names = ("name", "bdf", "electrical", "thermal", "max_clock_frequency_mhz")
    api.xrt_info_device = SimpleNamespace(**{name: name for name in names})
    return sensors


@pytest.fixture
def bench(symlight, package_path, xclbin, cache):
    def call(*arguments):
        return symlight(
            "bench",
            "--model",
            package_path,
            "--device",
            "xrt:0",
            "--xclbin",
            xclbin,
            "--cache",
            cache,
            "--prefix",
            3,
            5,
            "--new-tokens",
            4,
            "--rounds",
            2,
            "--seconds",
            0.3,
            "--idle-seconds",
            5.5,
            *arguments,
        )

    return call


@pytest.mark.slow
def test_the_command_on_a_card(bench, wired, tmp_path):
    out = tmp_path / "result.json"
    result = bench("--out", out, "--json", "--verify", "--seconds", 2, "--idle-seconds", 8).json
    assert json.loads(out.read_text()) == result
    assert (
        result["complete"]
        and result["device"] == "xrt:0"
        and result["sensor"] == "xrt"
        and result["verified"]
    )
    assert [(one["prefix"], one["round"]) for one in result["rounds"]] == [(3, 1), (5, 1), (3, 2), (5, 2)]
    assert result["summary"][0]["active_watts"]["median"] == pytest.approx(25)
    assert result["summary"][0]["request_incremental_joules"]["median"] == pytest.approx(0, abs=1e-9)
    rows = list(csv.DictReader(io.StringIO(out.with_suffix(".csv").read_text())))
    assert len(rows) == result["readings"]["taken"] and wired.asked >= len(rows)
    assert out.with_suffix(".png").exists() == (importlib.util.find_spec("matplotlib") is not None)


def test_the_command_on_a_card_without_a_sensor(bench, wired, monkeypatch, tmp_path):
    wired.watts = "N/A"
    monkeypatch.chdir(tmp_path)
    result = bench()
    assert result.code == 0, result.err
    assert "not measured: power and energy: the card at 0000:3b:00.1" in result.out
    (file,) = tmp_path.glob("energy-xrt_0-*.json")
    found = json.loads(file.read_text())
    assert (
        found["summary"][0]["decode_tokens_per_second"]["median"] > 0
        and found["about_device"]["name"] == "fake_card"
    )
    assert not list(tmp_path.glob("*.csv"))


def test_ctrl_c_keeps_the_rounds_that_are_done(bench, wired, tmp_path, card):
    """The third run of a prefix's second round never comes; what was measured before is on disk."""
    wired.watts = "N/A"
    out = tmp_path / "result.json"
    start = card.start

    def interrupt(values):
        if out.exists() and len(json.loads(out.read_text())["rounds"]) == 2:
            raise KeyboardInterrupt
        start(values)

    card.start = interrupt
    assert bench("--out", out).error(130) == "interrupted"
    found = json.loads(out.read_text())
    assert len(found["rounds"]) == 2 and found["complete"] is False and not list(tmp_path.glob(".result*"))


def test_prefixes_in_one_option(symlight, package_path):
    for words in (("--prefix", "3", "x"), ("--prefix", "3", "1")):
        assert "--prefix" in symlight("bench", "--model", package_path, *words).error()
