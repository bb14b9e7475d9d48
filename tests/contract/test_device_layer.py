"""The driver's device layer: buffers, transfers, scalars, runs. On simulated cards of several XRT releases,
and on a real card."""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.card import Card
from symlight.hw.axi import BANK_BYTES
from symlight.hw.interface import MAILBOX, NO_EOS, Command, ErrorCode, Io
from symlight.sim import card as cards
from tests.benches.contract.devices import NEWEST, altered, real, simulated
from tests.benches.contract.releases import SUPPORTED, binding

pytestmark = pytest.mark.timeout(120, func_only=True)
LIMIT = 1 << 31


@pytest.fixture
def card(dut) -> Card:
    """The device layer with buffers, a loaded model, and token 1 as the prompt."""
    opened = dut.machine()._card
    opened.write("io", Io.PROMPT, np.array([1], "<u4"))
    return opened


def finish(card: Card, seconds: float = 60) -> None:
    """Wait for the run in slices, as the driver does."""
    end = time.monotonic() + seconds
    while not card.wait(20):
        assert time.monotonic() < end, "the run does not end"


def mailbox(card: Card, *fields: str) -> list[int]:
    words = card.read("io", Io.MAILBOX, 64).view("<u4")
    return [int(words[MAILBOX[name]]) for name in fields]


# ---- opening ----


@pytest.mark.parametrize("release", SUPPORTED, ids=lambda value: "{}.{}".format(*value))
def test_every_release_opens_the_kernel_for_itself(release):
    """By hw_context where the release can make an exclusive one, else by a kernel that is; nothing that is
    deprecated."""
    api = binding(release)
    made = []

    class Context(getattr(api, "hw_context", object)):
        def __init__(self, *arguments):
            made.append(arguments[-1])
            super().__init__(*arguments)

    dut = simulated(altered(api, hw_context=Context) if release >= (2, 16) else api)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        first = dut.card()
        with pytest.raises(UserError, match="Conflicting access mode"):
            dut.card()
        first.close()
        dut.card().close()
    assert [mode.name for mode in made] == (["exclusive"] * 3 if release >= (2, 23) else [])
    cards._cards.clear()


def test_an_absent_card_is_told(dut):
    with pytest.raises(UserError, match="opening device 97 failed"):
        Card(dut.api, 97, dut.xclbin, dut.arguments)


def test_what_is_no_kernel_is_refused(dut, tmp_path):
    with pytest.raises(UserError):
        Card(dut.api, dut.index, str(tmp_path), dut.arguments)


def test_a_card_that_holds_another_kernel_is_refused():
    """Until 2.15 the load may have been a no-op for another identity than the one that was asked for."""
    api = binding((2, 13))

    class Device(api.device):
        def get_xclbin_uuid(self):
            return api.uuid("ffffffff-0000-0000-0000-000000000000")

    dut = simulated(altered(api, device=Device))
    with pytest.raises(UserError, match="the device holds xclbin ffffffff"):
        dut.card()
    cards._cards.clear()


def test_the_rig_of_a_real_card_does_not_depend_on_one(monkeypatch):
    """What the tests do with --xclbin, with the simulated card in pyxrt's place."""
    sim = simulated(binding(NEWEST))
    monkeypatch.setitem(sys.modules, "pyxrt", sim.api)
    dut = real("xrt:0", Path(sim.xclbin))
    assert (dut.index, dut.kernel.build_id) == (0, sim.kernel.build_id)
    machine = dut.machine()
    assert len(machine.run([1, 2], 2, None).tokens) == 2
    dut.close()
    cards._cards.clear()


# ---- buffers ----


def test_every_buffer_is_on_the_bank_that_its_argument_reaches(dut, card):
    """By group_id: a buffer elsewhere is copied silently on a card (and refused by the simulated one)."""
    for argument in dut.arguments:
        if argument.port:
            assert card._buffers[argument.name].address() // BANK_BYTES == int(argument.port[-2:]), (
                argument.name
            )


def test_a_buffer_larger_than_a_bank_is_refused(dut):
    card = dut.card()
    with pytest.raises(UserError, match=f"argument hbm01 needs {BANK_BYTES + 4096:,} bytes"):
        card.allocate({"io": 4096, "hbm01": BANK_BYTES + 1})


def test_buffers_that_do_not_fit_a_bank_together_are_refused(dut):
    card = dut.card()
    with pytest.raises(UserError, match="allocating"):
        card.allocate({"io": Io.SIZE, "hbm00": BANK_BYTES})


def test_unknown_arguments_have_no_buffer(dut):
    with pytest.raises(KeyError):
        dut.card().allocate({"hbm99": 4096})


def test_transfers_go_all_the_way(card):
    """What was written is on the device, not only in the host's copy; what is read comes from the device."""
    data = np.random.default_rng(3).integers(0, 256, 1000, np.uint8)
    card.write("io", Io.PROMPT + 132, data)
    card._buffers["io"].write(np.zeros(4096, np.uint8), Io.PROMPT)  # the host's copy alone
    assert np.array_equal(card.read("io", Io.PROMPT + 132, 1000), data)
    card._buffers["io"].write(np.zeros(4096, np.uint8), Io.PROMPT)
    assert np.array_equal(card.read("io", Io.PROMPT + 140, 8), data[8:16])


def test_transfers_of_any_size_leave_their_neighbours_alone(card):
    """Whole words of 64 bytes move; the bytes around keep what the host last saw there."""
    for offset, size in ((0, 1), (63, 2), (64, 64), (1, 4095), (4000, 3)):
        expected = np.full(8192, 0x11, np.uint8)
        card.write("io", Io.TOKENS, expected)
        card.write("io", Io.TOKENS + offset, np.full(size, 0x22, np.uint8))
        expected[offset : offset + size] = 0x22
        assert np.array_equal(card.read("io", Io.TOKENS, 8192), expected), (offset, size)
    card.write("io", Io.TOKENS, expected[:0])
    assert card.read("io", Io.TOKENS, 0).size == 0


def test_transfers_past_the_end_are_refused(card):
    with pytest.raises(UserError, match="to buffer io failed"):
        card.write("io", Io.SIZE - 1, np.zeros(2, np.uint8))
    with pytest.raises(UserError, match="of buffer io failed"):
        card.read("io", Io.SIZE - 1, 2)


def test_both_forms_of_sync(dut, card):
    """Three arguments in every release; the whole buffer from 2.16 on, and a TypeError before."""
    buffer, direction = card._buffers["io"], dut.api.xclBOSyncDirection
    buffer.write(np.full(64, 7, np.uint8), Io.PROMPT)
    buffer.sync(direction.XCL_BO_SYNC_BO_TO_DEVICE, 64, Io.PROMPT)
    buffer.write(np.full(64, 9, np.uint8), Io.PROMPT)
    if getattr(dut.api, "release", (2, 16)) < (2, 16):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            buffer.sync(direction.XCL_BO_SYNC_BO_FROM_DEVICE)
        return
    buffer.sync(direction.XCL_BO_SYNC_BO_FROM_DEVICE)
    assert set(bytes(buffer.read(64, Io.PROMPT))) == {7}


# ---- scalars ----


def test_scalars_beyond_31_bits_are_refused(dut, card):
    """The binding casts to a signed int, or leaves the argument unset; so nothing is set and nothing
    starts."""
    for argument in dut.arguments:
        for value in (LIMIT, 1 << 32, -1):
            if not argument.port:
                with pytest.raises(ValueError, match=f"{argument.name} = {value} does not fit 31 bits"):
                    card.start(**dut.quick(5) | {argument.name: value})
    largest = {argument.name: LIMIT - 1 for argument in dut.arguments if not argument.port}
    card.start(**largest)
    finish(card)
    assert mailbox(card, "run_id", "error") == [LIMIT - 1, ErrorCode.BAD_COMMAND]


# ---- runs ----


def test_runs_follow_each_other(dut, card):
    for run_id in (1, 77, LIMIT - 1, 2):
        card.start(**dut.quick(run_id))
        finish(card)
        assert mailbox(card, "run_id") == [run_id]


def test_a_wait_that_times_out_leaves_the_run_alive(dut, card):
    card.start(**dut.slow(11))
    begin = time.monotonic()
    assert card.wait(20) is False
    assert time.monotonic() - begin < 5
    with pytest.raises(UserError, match="starting the kernel failed"):
        card.start(**dut.quick(12))
    finish(card)
    assert mailbox(card, "run_id", "error") == [11, ErrorCode.WATCHDOG]
    card.start(**dut.quick(13))
    finish(card)
    assert mailbox(card, "run_id") == [13]


def test_a_late_run_answers_under_its_own_id(dut, card):
    """Whoever gave up waiting finds another id in the mailbox until that run is over, and then that run's."""
    card.start(**dut.quick(20))
    finish(card)
    card.start(**dut.slow(21))
    assert card.wait(20) is False
    assert mailbox(card, "run_id") == [20], "the mailbox must not change before the run's end"
    finish(card)
    assert mailbox(card, "run_id") == [21]


def test_arguments_count_from_the_start_of_the_run(dut, card):
    """XRT writes the whole register map at a start; what a host sets later belongs to the next run."""
    card.start(**dut.slow(31))
    card._run.set_arg(card._arguments["run_id"], 99)
    finish(card)
    assert mailbox(card, "run_id") == [31]


def test_tokens_can_be_read_while_the_run_goes_on(dut, card):
    count = dut.slow(41)["n_new"]
    card.write("io", Io.TOKENS, np.full(count, NO_EOS, "<u4"))
    card.start(**dut.slow(41) | {"eos": NO_EOS})
    seen = []
    while not card.wait(5):
        seen.append(int((card.read("io", Io.TOKENS, 4 * count).view("<u4") != NO_EOS).sum()))
    assert seen == sorted(seen) and any(0 < count < seen[-1] for count in seen), seen


def test_a_closed_card_gives_everything_back(dut):
    machine = dut.machine()
    machine.close()
    assert not machine._card._buffers and machine._card._kernel is None
    if dut.name == "sim":
        assert not any(cards.card_at(0)._banks), "device memory is still allocated"
    assert dut.machine()._execute(Command.RESET, watchdog=1_000_000).ok
