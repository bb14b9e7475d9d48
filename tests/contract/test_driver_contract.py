"""The driver over a device that is slow, late, stale, interrupted or in use. On simulated cards and on a real
card."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.mailbox import BYTES as MAILBOX_BYTES
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.hw.interface import Io
from symlight.sim import card as cards
from tests.benches.contract import holder
from tests.benches.contract.devices import CARD, NEWEST, altered, complete_early
from tests.benches.places import ROOT

pytestmark = pytest.mark.timeout(120, func_only=True)
PROMPT, COUNT = [1, 2, 3], 5


@pytest.fixture
def expected(dut):
    return ReferenceMachine(dut.model).run(PROMPT, COUNT, None).tokens


def slow_run(machine, on_token=None):
    """A run that the kernel's watchdog ends long after some waits."""
    machine._watchdog, before = machine._slow_cycles, machine._watchdog
    try:
        return machine.run(PROMPT, 60_000, None, on_token)
    finally:
        machine._watchdog = before


@pytest.fixture
def machine(dut):
    """machine(**options): the driver; its `slow_run` is slow on this dut."""

    def make(api=None, **options):
        opened = dut.machine(api, **options)
        opened._slow_cycles = dut.slow_cycles
        return opened

    return make


def works(machine, expected) -> None:
    """Tokens and state of a fresh session are right."""
    machine.reset()
    assert machine.run(PROMPT, COUNT, None).tokens == expected
    assert machine.position == len(PROMPT) + COUNT - 1


def next_driver_works_or_refuses(dut, machine, expected) -> None:
    """While a late run goes on: right results or, from a card that reports its end as the next one's, a
    refusal, at the first command or later."""
    try:
        works(machine(), expected)
    except UserError as error:
        assert dut.name != "sim" and "results are stale" in str(error)


def test_tokens_equal_the_reference(machine, expected):
    works(machine(), expected)


def test_a_late_run_of_a_driver_that_gave_up(dut, machine, expected):
    first = machine()
    first._time_limit = 0.01
    with pytest.raises(UserError, match="did not end within 0.01 s, and a started kernel cannot be stopped"):
        slow_run(first)
    with pytest.raises(UserError, match="cannot be used any more"):
        first.reset()
    first.close()
    next_driver_works_or_refuses(dut, machine, expected)


def test_a_run_reported_complete_before_its_end_is_refused(dut, machine):
    """Its mailbox holds what the driver put there before the run."""
    early = []
    device = machine(complete_early(dut.api, lambda: bool(early)))
    early.append(True)
    with pytest.raises(UserError, match="holds 0x00000000 of run 0: the results are stale"):
        slow_run(device)
    with pytest.raises(UserError, match="cannot be used any more"):
        device.run(PROMPT, COUNT, None)


def test_the_mailbox_of_an_earlier_run_is_refused(dut, machine):
    """A run that ends without writing its mailbox leaves that of the run before, magic number and all."""
    early = []
    device = machine(complete_early(dut.api, lambda: bool(early)))
    device.run(PROMPT, COUNT, None)
    earlier = device._card.read("io", Io.MAILBOX, MAILBOX_BYTES)
    write = device._card.write

    def keep(name, offset, data):  # the device refuses to have its mailbox cleared
        write(name, offset, earlier if (name, offset) == ("io", Io.MAILBOX) else data)

    device._card.write = keep
    early.append(True)
    with pytest.raises(
        UserError, match=f"mailbox holds 0x534c5632 of run {device._run_id}: the results are stale"
    ):
        device.reset()


def test_device_memory_of_an_earlier_process_is_not_believed(dut, machine, expected):
    """Buffers are born with old contents: a mailbox that was right once, in the place of ours."""
    first = machine()
    first.run(PROMPT, COUNT, None)
    old = {name: first._card.read(name, 0, 4096) for name in first._card._buffers}
    first.close()
    direction = dut.api.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE

    class Born(dut.api.bo):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            if self.size() == Io.SIZE:
                self.write(old["io"], 0)
                self.sync(direction, 4096, 0)
                self.write(np.zeros(4096, np.uint8), 0)

    early = [True]
    with pytest.raises(UserError, match="stale"):
        machine(complete_early(altered(dut.api, bo=Born), lambda: bool(early)))
    dut.close()
    works(machine(altered(dut.api, bo=Born)), expected)


def test_ctrl_c_in_the_middle_of_an_upload(dut, machine, expected):
    """Everything is given back, and the next open finds a card that works."""
    steps = []

    def interrupt(stage, done, total):
        steps.append(done)
        if 2 * done >= total and len(steps) > 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        machine(progress=interrupt)
    assert 1 < len(steps)
    dut.close()  # what OpenedDevice does
    if dut.name == "sim":
        assert not any(cards.card_at(0)._banks), "device memory is still allocated"
    works(machine(), expected)


def interrupt(device, look: int) -> None:
    """Ctrl-C at the driver's so many-th look at a run; its slices are 20 ms."""
    wait, looks = device._card.wait, []

    def interrupted(milliseconds):
        looks.append(milliseconds)
        if len(looks) == look:
            signal.raise_signal(signal.SIGINT)
        return wait(milliseconds)

    device._card.wait = interrupted


def test_ctrl_c_in_the_middle_of_a_run(machine, expected):
    """The run ends within the grace period, its session is lost, and a reset starts the next."""
    device = machine(grace_ms=60_000)
    interrupt(device, 4)
    with pytest.raises(KeyboardInterrupt):
        slow_run(device)
    with pytest.raises(UserError, match="session is gone .a run was interrupted"):
        device.read_state()
    works(device, expected)


def test_ctrl_c_in_a_run_that_goes_on(dut, machine, expected):
    """Without patience the device is given up, and the next driver has a card that works."""
    device = machine(grace_ms=0)
    interrupt(device, 2)
    with pytest.raises(KeyboardInterrupt):
        slow_run(device)
    with pytest.raises(UserError, match="interrupted and is still going on"):
        device.reset()
    device.close()
    next_driver_works_or_refuses(dut, machine, expected)


def test_ctrl_c_while_tokens_are_shown(machine, expected):
    device, seen = machine(grace_ms=60_000), []

    def show(token):
        seen.append(token)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        slow_run(device, show)
    assert seen == expected[:3]
    works(device, expected)


# ---- two processes ----

one_release = pytest.mark.parametrize("dut", [NEWEST, CARD], indirect=True, ids=["newest", "card"])


class Other:
    """Another process that opens the card; `say` is its first line: "open" or one sentence of refusal."""

    def __init__(self, dut, cache: Path):
        command = [sys.executable, "-m", holder.__name__, device_name(dut), dut.xclbin, str(cache)]
        if dut.name == "sim":
            command.append("--simulated")
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.say = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def leave(self) -> None:
        self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0


def device_name(dut) -> str:
    return "xrt:0" if dut.name == "sim" else dut.name


def open_here(dut, cache: Path, monkeypatch) -> OpenedDevice:
    monkeypatch.setitem(sys.modules, "pyxrt", dut.api)
    return OpenedDevice(
        DeviceOptions(device=device_name(dut), xclbin=Path(dut.xclbin), cache=cache), dut.model
    )


@one_release
def test_two_processes(dut, tmp_path, monkeypatch, expected):
    """Whoever comes second is refused in one sentence, before the card is touched; afterwards it can have
    it."""
    with open_here(dut, tmp_path, monkeypatch) as machine:
        machine.run(PROMPT, 2, None)
        other = Other(dut, tmp_path)
        assert "used by another symlight process" in other.say
        other.leave()
        works(machine, expected)
    other = Other(dut, tmp_path)
    assert other.say == "open"
    with pytest.raises(UserError, match="used by another symlight process"):
        open_here(dut, tmp_path, monkeypatch)
    other.leave()
    with open_here(dut, tmp_path, monkeypatch) as machine:
        works(machine, expected)


@one_release
def test_a_process_that_was_killed_leaves_the_card_free(dut, tmp_path, monkeypatch, expected):
    other = Other(dut, tmp_path)
    assert other.say == "open"
    other.kill()
    with open_here(dut, tmp_path, monkeypatch) as machine:
        works(machine, expected)


@pytest.mark.parametrize("dut", [CARD], indirect=True)
def test_two_processes_that_do_not_share_a_lock(dut, tmp_path, monkeypatch):
    """Other users have another cache: XRT itself must refuse the second."""
    other = Other(dut, tmp_path / "theirs")
    assert other.say == "open"
    with pytest.raises(UserError, match="loading|opening"):
        open_here(dut, tmp_path / "ours", monkeypatch)
    other.leave()
