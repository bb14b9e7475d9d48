"""What results are compared with, and that it is said."""

from dataclasses import replace

import pytest

from symlight.base.errors import UserError
from symlight.host.device import golden
from symlight.host.device.cpu_machine import CpuMachine
from symlight.host.device.golden import check_engine, golden_machine
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.host.device.reference_machine import ReferenceMachine


@pytest.fixture
def options(cache):
    return DeviceOptions(device="sim", cache=cache)


@pytest.mark.parametrize("device", ["cpu", "cpu:2", "reference"])
def test_the_engine_is_compared_with_the_reference(package, options, device):
    machine = golden_machine(package, replace(options, device=device))
    assert isinstance(machine, ReferenceMachine) and machine.name == "reference"


@pytest.mark.parametrize("device", ["sim", "xrt:0"])
def test_cards_are_compared_with_the_engine(package, options, device):
    machine = golden_machine(package, replace(options, device=device))
    assert isinstance(machine, CpuMachine) and "CPU engine, checked" in machine.name
    assert machine.run([1, 2], 5, None).tokens == ReferenceMachine(package.model).run([1, 2], 5, None).tokens
    machine.close()


def test_a_package_is_checked_once(package, options, monkeypatch):
    checks = []
    monkeypatch.setattr(golden, "check_engine", lambda *arguments: checks.append(arguments))
    for _ in range(2):
        golden_machine(package, options).close()
    assert len(checks) == 1


def test_without_a_compiler_it_is_the_reference(package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(
        golden_machine(package, DeviceOptions(device="sim", cache=tmp_path / "new")), ReferenceMachine
    )


class Broken:
    """An engine that changes what one pass gives."""

    def __init__(self, engine, change):
        self._engine, self._change, self._passes = engine, change, 0

    def close(self):
        self._engine.close()

    def run(self, feeds):
        results = self._engine.run(feeds)
        self._passes += 1
        if self._passes == 2:
            self._change(feeds[0], results[0])
        return results


def change_logit(feed, fed):
    fed.logits[2, 7] += 1


def change_count(feed, fed):
    fed.active[0, 1, 3] += 1


def change_state(feed, fed):
    feed.session.state.ring_v[-1, 0, -1] ^= 1


@pytest.mark.parametrize(
    ("change", "what"),
    [(change_logit, "the logits of position 3"), (change_count, "the event counts of position 1")],
)
def test_an_engine_that_differs_is_refused(package, options, change, what):
    with OpenedDevice(replace(options, device="cpu:1"), package) as machine:
        engine = machine.engine
        machine.engine = Broken(engine, change)
        with pytest.raises(UserError, match=f"differs from the reference .*{what}"):
            check_engine(machine, package)
        machine.engine = Broken(engine, change_state)
        with pytest.raises(UserError, match="differs from the reference .* in the "):
            check_engine(machine, package)
        machine.engine = engine
        check_engine(machine, package)
