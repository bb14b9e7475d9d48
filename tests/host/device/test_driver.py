"""The driver over a card that obeys, and over cards that report faults. What else a device may do to it:
tests/contract."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import CARDS
from symlight.hw.interface import Command, ErrorCode, Flag, Io, StopReason
from symlight.model.config import MAX_POSITION, preset
from symlight.model.state import State
from tests.benches.host.fake_card import CYCLES_A_PASS
from tests.benches.host.fake_pyxrt import UNTOUCHED, FakeState
from tests.benches.host.host_bench import BUILD_ID, open_accelerator


@pytest.mark.parametrize("contexts", [True, False])
def test_a_conversation_equals_the_reference(card, model, contexts):
    device, reference = open_accelerator(card, contexts=contexts), ReferenceMachine(model)
    assert card.commands == [Command.RESET, Command.LOAD]
    for prompt, n_new in (([1, 2, 3], 5), ([], 3), ([7], 0), ([], 1), ([9, 9, 9, 9, 9, 9, 9], 20), ([4], 4)):
        ours, theirs = device.run(prompt, n_new, None), reference.run(prompt, n_new, None)
        assert ours.tokens == theirs.tokens and len(ours.tokens) == n_new
        assert (ours.prompt_passes, ours.decode_passes) == (theirs.prompt_passes, theirs.decode_passes)
        assert np.array_equal(ours.active, theirs.active)
        assert device.read_state() == reference.read_state()
        assert (device.position, device.pending) == (reference.position, reference.pending)
    assert device.position > model.shape.slots, "the ring must have wrapped"


def test_results_of_a_run(card):
    result = open_accelerator(card).run([1, 2, 3], 5, None)
    assert (result.prompt_passes, result.decode_passes, result.passes) == (3, 4, 7)
    assert result.cycles.total == 7 * CYCLES_A_PASS + 100
    assert (result.cycles.prompt, result.cycles.decode) == (3 * CYCLES_A_PASS, 4 * CYCLES_A_PASS)
    assert result.cycles.phases["attention"] == (350, 350) and len(result.cycles.phases) == 10
    assert result.bytes_read["head"] == 70 * card.engine.beat_bytes
    assert result.active.shape == (2, 4) and result.active.all()


def test_eos_ends_a_run(card, model):
    device = open_accelerator(card)
    first = ReferenceMachine(model).run([1, 2], 1, None).tokens[0]
    result = device.run([1, 2], 8, first)
    assert (result.tokens, result.stop_reason) == ([first], "eos")
    assert device.pending == first


def test_tokens_come_while_the_run_goes_on(card, model):
    device, seen = open_accelerator(card), []
    result = device.run([1, 2], 20, None, on_token=lambda token: seen.append((card.running, token)))
    assert [token for _, token in seen] == result.tokens
    assert sum(running for running, _ in seen) >= 10, "nothing was handed on before the run's end"


def test_zero_is_a_token_like_any_other(card):
    device, seen = open_accelerator(card), []
    card.tokens = [0, 0, 5, 0, 0, 0, 0, 0, 0, 0]
    assert device.run([1], 10, None, on_token=seen.append).tokens == card.tokens == seen


def test_state_goes_out_and_comes_back(card, model):
    device = open_accelerator(card)
    device.run([1, 2, 3, 4, 5], 20, None)
    state = device.read_state()
    expected = device.run([6], 5, None).tokens
    device.reset()
    assert (device.position, device.pending) == (0, None)
    assert device.read_state() == State.new(model.shape)
    device.write_state(state)
    assert device.read_state() == state
    assert device.run([6], 5, None).tokens == expected


def test_modes_go_to_every_run(card):
    device = open_accelerator(card, flags=Flag.DENSE | Flag.FULL_KV, watchdog=12345)
    device.run([1], 1, None)
    assert card.scalars["flags"] == 3 and card.scalars["watchdog"] == 12345


@pytest.mark.parametrize(
    "prompt, n_new, sentence",
    [
        ([], 4, "prompt is empty"),
        ([1], -1, "must not be negative"),
        ([160], 1, "token 160 is outside the vocabulary 0..159"),
        ([-1], 1, "token -1 is outside"),
        ([1] * (Io.MAX_PROMPT + 1), 1, f"at most {Io.MAX_PROMPT}"),
        ([1], Io.MAX_NEW + 1, f"at most {Io.MAX_NEW}"),
    ],
)
def test_what_cannot_be_run_is_refused_before(card, prompt, n_new, sentence):
    device = open_accelerator(card)
    with pytest.raises(UserError, match=sentence):
        device.run(prompt, n_new, None)
    with pytest.raises(UserError, match="the end-of-sequence token -5 is outside the vocabulary"):
        device.run([1], 1, -5)
    assert card.commands == [Command.RESET, Command.LOAD]
    assert device.run([1], 1, None).tokens


def test_a_full_session_is_refused(card, model):
    device = open_accelerator(card)
    state = State.new(model.shape)
    state.position, state.pending = MAX_POSITION - 2, 1
    device.write_state(state)
    with pytest.raises(UserError, match="1048576 positions"):
        device.run([1, 2], 1, None)
    assert device.run([1], 1, None).tokens  # the last position


def test_a_model_that_does_not_fit_is_refused(engine):
    with pytest.raises(UserError, match="this kernel has"):
        Layout(CARDS["sim4"], preset("194m"))


def test_another_build_is_refused(card):
    steps = []
    with pytest.raises(UserError, match=f"is build {BUILD_ID:032x}, its manifest says {5:032x}"):
        open_accelerator(card, build_id=5, progress=lambda *step: steps.append(step))
    assert card.commands == [Command.RESET] and not steps, "a weight has moved"
    for k in range(card.engine.channels):
        assert (card.buffers[f"hbm{k:02d}"] == UNTOUCHED).all()


def test_every_reply_is_of_the_build(card):
    device = open_accelerator(card)
    card.build_id += 1  # somebody else has loaded another kernel
    with pytest.raises(UserError, match="is build .* its manifest says"):
        device.run([1], 1, None)
    with pytest.raises(UserError, match="cannot be used any more"):
        device.reset()


def test_a_kernel_that_is_loaded_already_is_opened_again(card):
    expected = open_accelerator(card).run([1, 2], 3, None).tokens
    assert open_accelerator(card).run([1, 2], 3, None).tokens == expected


@pytest.mark.parametrize(
    "error, sentence",
    [
        (ErrorCode.READ_RESPONSE, "memory read failed .channel 1, address 0x1234560"),
        (ErrorCode.WRITE_RESPONSE, "memory write failed .channel 1"),
        (ErrorCode.WATCHDOG, "more than 777 cycles"),
        (ErrorCode.SESSION_FULL, "session is full"),
    ],
)
def test_a_fault_is_told_and_reset_mends_it(card, error, sentence):
    device = open_accelerator(card, watchdog=777)
    expected = device.run([1, 2], 3, None).tokens
    card.fault = error
    with pytest.raises(UserError, match=sentence):
        device.run([3], 3, None)
    with pytest.raises(UserError, match="session is gone"):
        device.run([3], 3, None)
    device.reset()
    assert device.run([1, 2], 3, None).tokens == expected


def test_a_failed_run_is_told(card):
    device = open_accelerator(card)
    card.run_state = FakeState.ERT_CMD_STATE_ERROR
    with pytest.raises(UserError, match="ended as ERT_CMD_STATE_ERROR"):
        device.run([1], 1, None)


def test_a_closed_device_says_so(card):
    device = open_accelerator(card)
    device.close()
    with pytest.raises(UserError, match="closed"):
        device.reset()


def test_upload_reports_its_progress(card):
    steps = []
    open_accelerator(card, progress=lambda *step: steps.append(step))
    assert steps and all(stage == "upload" for stage, _, _ in steps)
    assert steps[-1][1] == steps[-1][2] == sum(image.size for image in card.expected_images)


def test_pending_token_zero_is_restored(card, model):
    """Zero is a token, not the absence of one."""
    device, reference = open_accelerator(card), ReferenceMachine(model)
    reference.run([5, 0], 0, None)
    assert reference.pending == 0
    device.write_state(reference.read_state())
    assert (device.position, device.pending) == (1, 0)
    assert device.run([], 3, None).tokens == reference.run([], 3, None).tokens


def test_run_ids_of_two_drivers_differ(card):
    """A mailbox that another process left on the card must not look like this driver's."""
    first = []
    for _ in range(3):
        ids = []
        device = open_accelerator(card)
        for _ in range(3):
            device.run([1], 1, None)
            ids.append(card.scalars["run_id"])
        assert len(set(ids)) == 3, "two runs of one driver have the same id"
        first.append(ids[0])
    assert len(set(first)) == 3, f"drivers begin with the ids {first}"


@pytest.mark.parametrize("stop_reason", [StopReason.LENGTH, StopReason.EOS, StopReason.NONE])
def test_a_status_of_error_is_a_fault_whatever_the_stop_reason(card, stop_reason):
    device = open_accelerator(card)
    failed = card._failed
    card._failed = lambda *more, **place: failed(*more, **place) | {"stop_reason": stop_reason}
    card.fault = ErrorCode.READ_RESPONSE
    with pytest.raises(UserError, match="memory read failed"):
        device.run([3], 3, None)
    with pytest.raises(UserError, match="session is gone"):
        device.run([3], 3, None)
