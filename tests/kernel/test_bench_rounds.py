"""The measuring protocol on the simulated card: no sensor and no host's time, but tokens, and throughput by
kernel cycles."""

import json

import numpy as np
import pytest
from rich.console import Console

from symlight.host.bench.protocol import ProtocolSettings
from symlight.host.bench.protocol_report import FIGURES, print_protocol
from symlight.host.bench.protocol_run import Results, prompts, run_protocol
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.host.device.packages import open_package
from symlight.host.device.verify import VerificationError
from tests.benches.kernel.kernel_list import CACHE, OPTIMISE

pytestmark = pytest.mark.kernel("sim4")
SETTINGS = ProtocolSettings(prefixes=(3, 9), new_tokens=4)
OPTIONS = DeviceOptions(
    card="sim4", build="runtime", hbm="ideal", cache=CACHE, simulation={"optimise": OPTIMISE}
)


@pytest.fixture
def console():
    return Console(record=True, width=200, force_terminal=False)


def test_what_the_simulated_card_can_say(kernel, console, tmp_path):
    package = open_package("demo")
    out = tmp_path / "result.json"
    result = run_protocol(package, OPTIONS, SETTINGS, Results(out), verify=True, console=console)
    assert json.loads(out.read_text())["rounds"] == result["rounds"] and list(tmp_path.iterdir()) == [out]
    assert (
        result["complete"]
        and result["timing"] == "kernel"
        and result["verified"]
        and result["sensor"] is None
    )
    assert "has no power sensor" in result["about_sensor"] and len(result["not_measured"]) == 2
    with OpenedDevice(OPTIONS, package.model) as machine:
        for entry, (prefix, prompt) in zip(
            result["summary"], prompts(package, SETTINGS).items(), strict=True
        ):
            machine.reset()
            first, second = machine.run(prompt, 0, None), machine.run([], SETTINGS.new_tokens, None)
            assert (first.passes, second.passes) == (prefix - 1, SETTINGS.new_tokens)
            seconds = np.array([first.cycles.total, second.cycles.total]) / (machine.clock_mhz * 1e6)
            assert result["tokens"][str(prefix)] == second.tokens
            assert entry["decode_tokens_per_second"]["median"] == pytest.approx(
                SETTINGS.new_tokens / seconds[1]
            )
            assert entry["request_tokens_per_second"]["median"] == pytest.approx(
                SETTINGS.new_tokens / seconds.sum()
            )
            rate = second.decode_passes * machine.clock_mhz * 1e6 / second.cycles.decode
            assert entry["device_passes_per_second"]["median"] == pytest.approx(rate)
            assert all(entry[name] is None for name in FIGURES if "watts" in name or "joules" in name)
    print_protocol(console, result)
    text = console.export_text()
    assert text.count("not measured:") == 2 and "p9/n4" in text and "joules" not in text


def test_a_card_that_generates_other_tokens_is_found(kernel, console, monkeypatch):
    """Its figures are void, however fast it is."""
    package = open_package("demo")
    monkeypatch.setattr(
        "symlight.host.bench.protocol_run.reference_tokens", lambda *_: {3: [1, 2, 3, 4], 9: [1, 2, 3, 4]}
    )
    with pytest.raises(VerificationError, match="the run is rejected"):
        run_protocol(package, OPTIONS, SETTINGS, Results(None), verify=True, console=console)
