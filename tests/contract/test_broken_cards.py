"""The contract's tests fail on devices and drivers that break it: each of these faults is found by the test
that is named."""

import pytest

from symlight.base.errors import UserError
from symlight.host.device import card as host_card
from symlight.host.device.driver import Accelerator
from symlight.host.device.mailbox import Mailbox
from symlight.hw.interface import Io
from symlight.sim import card as cards
from tests.benches.contract.devices import NEWEST, DeviceUnderTest, altered, simulated
from tests.benches.contract.releases import binding
from tests.contract import test_device_layer as layer
from tests.contract import test_driver_contract as driver

pytestmark = pytest.mark.timeout(120, func_only=True)


class Faults:
    """A card that obeys until `on` is set: then one of the methods below is in the place of its own."""

    def __init__(self):
        api = binding(NEWEST)
        self.on, self.fault = False, None
        directions = api.xclBOSyncDirection
        faults = self

        class Bo(api.bo):
            def sync(self, direction, *part):
                lost = {
                    "lost to": directions.XCL_BO_SYNC_BO_TO_DEVICE,
                    "lost from": directions.XCL_BO_SYNC_BO_FROM_DEVICE,
                }
                if not (faults.on and direction is lost.get(faults.fault)):
                    super().sync(direction, *part)

        class Run(api.run):
            def wait(self, *timeout):
                if faults.on and faults.fault == "early":
                    return api.ert_cmd_state.ERT_CMD_STATE_COMPLETED
                if faults.on and faults.fault == "no time-out":
                    return super().wait()
                return super().wait(*timeout)

            def start(self):
                if faults.on and faults.fault == "restart":
                    self._job = None
                super().start()

        self.dut = simulated(altered(api, bo=Bo, run=Run))

    def card(self, fault: str):
        opened = layer.card.__wrapped__(self.dut)
        self.on, self.fault = True, fault
        return opened


@pytest.fixture
def faults():
    made = Faults()
    yield made
    made.dut.close()
    cards._cards.clear()


@pytest.mark.parametrize("fault, check", [
    ("lost to", lambda dut, card: layer.test_transfers_go_all_the_way(card)),
    ("lost from", lambda dut, card: layer.test_transfers_go_all_the_way(card)),
    ("early", layer.test_a_wait_that_times_out_leaves_the_run_alive),
    ("no time-out", layer.test_a_wait_that_times_out_leaves_the_run_alive),
    ("restart", layer.test_a_wait_that_times_out_leaves_the_run_alive),
    ("early", layer.test_a_late_run_answers_under_its_own_id),
    ("lost from", layer.test_runs_follow_each_other),
], ids=lambda value: getattr(value, "__name__", value))  # fmt: skip
def test_a_card_that_breaks_the_contract(faults, fault, check):
    card = faults.card(fault)
    with pytest.raises((AssertionError, UserError, pytest.fail.Exception)):
        check(faults.dut, card)


def test_nothing_of_this_fails_on_a_card_that_obeys(faults):
    card = faults.card("none")
    layer.test_transfers_go_all_the_way(card)
    layer.test_a_wait_that_times_out_leaves_the_run_alive(faults.dut, card)


# ---- drivers ----


def found(check, *arguments) -> None:
    with pytest.raises((AssertionError, UserError, TypeError, pytest.fail.Exception)):
        check(*arguments)


def test_a_driver_that_forgets_the_rest_of_a_word(faults, monkeypatch):
    monkeypatch.setattr(
        host_card, "_aligned", lambda offset, size: (offset // 64 * 64, (offset + size) // 64 * 64)
    )
    found(layer.test_transfers_of_any_size_leave_their_neighbours_alone, faults.card("none"))


def test_a_driver_that_knows_banks_by_heart(faults):
    """All buffers in bank 0, which a real card would copy in silence."""

    class Kernel(faults.dut.api.kernel):
        def group_id(self, index):
            return 0

    faults.dut.api = altered(faults.dut.api, kernel=Kernel)
    found(layer.test_every_buffer_is_on_the_bank_that_its_argument_reaches, faults.dut, faults.card("none"))


def test_a_driver_without_a_limit_of_sizes(faults, monkeypatch):
    monkeypatch.setattr(host_card, "BANK_BYTES", 1 << 40)
    found(layer.test_a_buffer_larger_than_a_bank_is_refused, faults.dut)


def test_a_driver_that_passes_any_scalar_on(faults, monkeypatch):
    monkeypatch.setattr(host_card, "SCALAR_LIMIT", 1 << 40)
    found(layer.test_scalars_beyond_31_bits_are_refused, faults.dut, faults.card("none"))


def test_a_driver_that_does_not_ask_for_the_kernel_alone(faults):
    """In any release: whoever opens the kernel shared is not refused a second time."""

    class Context(faults.dut.api.hw_context):
        def __init__(self, device, uuid, mode):
            super().__init__(device, uuid)

    api = altered(faults.dut.api, hw_context=Context)
    faults.dut.card(api)
    assert faults.dut.card(api), (
        "a shared kernel opens twice; test_every_release_opens_the_kernel_for_itself demands a refusal"
    )


def make(dut: DeviceUnderTest):
    return driver.machine.__wrapped__(dut)


def test_a_driver_that_believes_any_mailbox(faults, monkeypatch):
    decode = Mailbox.decode.__func__
    monkeypatch.setattr(
        Mailbox,
        "decode",
        classmethod(
            lambda cls, raw, run_id, reset: decode(cls, raw, int.from_bytes(raw[4:8], "little"), reset)
        ),
    )
    found(driver.test_the_mailbox_of_an_earlier_run_is_refused, faults.dut, make(faults.dut))


def test_a_driver_that_does_not_clear_its_mailbox(faults, monkeypatch):
    write = host_card.Card.write
    monkeypatch.setattr(
        host_card.Card,
        "write",
        lambda self, name, offset, data: (
            None if (name, offset) == ("io", Io.MAILBOX) else write(self, name, offset, data)
        ),
    )
    found(driver.test_a_run_reported_complete_before_its_end_is_refused, faults.dut, make(faults.dut))


def test_a_driver_that_goes_on_after_ctrl_c(faults, monkeypatch):
    """The session of an interrupted run must be lost, and a run that goes on must make the device
    unusable."""
    monkeypatch.setattr(Accelerator, "_let_finish", lambda self: None)
    monkeypatch.setattr(Accelerator, "_check_session", lambda self: None)
    expected = driver.expected.__wrapped__(faults.dut)
    found(driver.test_ctrl_c_in_the_middle_of_a_run, make(faults.dut), expected)
    found(driver.test_ctrl_c_in_a_run_that_goes_on, faults.dut, make(faults.dut), expected)
