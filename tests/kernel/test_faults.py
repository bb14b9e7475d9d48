"""Runs that fail, and the next run; kernels and memories that are wrong must be noticed."""

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.hw.interface import Command, Io
from symlight.sim.model import LOST

pytestmark = pytest.mark.kernel("sim4")
SLVERR, DECERR = 2, 3


def fails(card, *words: str, prompt=(1, 2, 3), n_new=3) -> None:
    with pytest.raises(UserError) as error:
        card.machine.run(list(prompt), n_new, None)
    for word in words:
        assert word in str(error.value)
    with pytest.raises(UserError, match="the session is gone"):
        card.machine.run([1], 1, None)


def works_after_reset(card) -> None:
    card.reset()
    card.run([5, 6, 7], 4)
    card.check_state()


@pytest.mark.parametrize("response", [SLVERR, DECERR])
@pytest.mark.parametrize("channel, region", [(0, "qkv"), (2, "down"), (3, "out"), (1, "head")])
def test_read_error(bench, tiny, channel, region, response):
    """The run stops and names channel and address; the next run works after a reset."""
    card = bench(tiny)
    layout = card.layout
    base = layout.head_base if region == "head" else layout.bases[-1][region]
    address = card.memory(channel).address + base * layout.engine.beat_bytes
    card.card.model.inject(channel, address, 4096, response, writes=False)
    with pytest.raises(UserError) as error:  # some of six passes read each of these places
        card.machine.run([1, 2, 3, 4, 5, 6], 3, None)
    assert "a memory read failed" in str(error.value) and f"channel {channel}" in str(error.value)
    reported = int(str(error.value).split("address ")[1].split(")")[0], 16)
    # the burst that failed, which starts at most its length before the place
    assert address - 16 * layout.engine.beat_bytes < reported < address + 4096
    card.card.model.clear_faults()
    works_after_reset(card)


def test_write_error(bench, tiny):
    card = bench(tiny)
    low, high = (beat * card.layout.engine.beat_bytes for beat in card.layout.ring_region)
    base = card.memory(1).address
    card.card.model.inject(1, base + low, high - low, SLVERR, reads=False)
    fails(card, "a memory write failed", "channel 1")
    card.card.model.clear_faults()
    works_after_reset(card)


def test_watchdog(bench, tiny):
    """Wherever it strikes, with reads and writes of any kind on their way."""
    for cycles in (700, 2000, 3000, 3500, 4100, 5000, 6111):
        card = bench(tiny, watchdog=cycles)
        fails(card, "watchdog")
        card.machine._watchdog = None
        works_after_reset(card)


@pytest.mark.parametrize("what", ["reads", "writes"])
def test_lost_answer(bench, tiny, what):
    """A port that never answers ends the run with its name, and nothing more is begun."""
    card = bench(tiny, watchdog=20_000)
    low, high = (beat * card.layout.engine.beat_bytes for beat in card.layout.ring_region)
    base = card.memory(2).address
    writes = what == "writes"
    region = (base + low, high - low) if writes else (base, low)
    card.card.model.inject(2, *region, LOST, reads=not writes, writes=writes)
    fails(card, "m_axi_hbm02 never answered", "xbutil reset")
    card.card.model.clear_faults()
    with pytest.raises(UserError, match="m_axi_hbm02 never answered"):
        card.reset()


@pytest.mark.parametrize("cycles", [2000, 4100])
def test_reset_without_load_mends_the_session(bench, tiny, cycles):
    """The model stays loaded over a fault; without a reset the kernel refuses to go on."""
    card = bench(tiny, watchdog=cycles)
    fails(card, "watchdog")
    card.machine._watchdog = card.machine._lost = None  # the driver would load again
    with pytest.raises(UserError, match="an earlier run failed; reset the session"):
        card.machine.run([1], 1, None)
    card.machine._lost = None
    works_after_reset(card)


def test_bad_token(bench, tiny, monkeypatch):
    """The driver refuses it; the kernel does too, without ingesting anything behind it."""
    card = bench(tiny)
    with pytest.raises(UserError, match="outside the vocabulary"):
        card.machine.run([1, tiny.shape.vocab], 1, None)
    monkeypatch.setattr("symlight.host.device.driver.check_input", lambda *_: None)
    fails(card, f"token {tiny.shape.vocab}", "vocabulary", prompt=(1, tiny.shape.vocab, 2))
    monkeypatch.undo()
    works_after_reset(card)


def test_empty_input(bench, tiny, monkeypatch):
    card = bench(tiny)
    monkeypatch.setattr("symlight.host.device.driver.check_input", lambda *_: None)
    with pytest.raises(UserError, match="nothing to run"):
        card.machine.run([], 1, None)
    monkeypatch.undo()
    works_after_reset(card)


def test_unknown_command(bench, tiny):
    card = bench(tiny)
    with pytest.raises(UserError, match="does not know the command"):
        card.machine._execute(29, watchdog=100_000)
    works_after_reset(card)


def test_the_last_position(bench, tiny):
    """Position 2^20 - 1 is ingested; what would pass it is refused before anything changes."""
    card = bench(tiny)
    card.run([1, 2, 3, 4] * 5, 1)
    state = card.machine.read_state()
    state.position = (1 << 20) - 3
    card.machine.write_state(state)
    card.reference.write_state(state)
    with pytest.raises(UserError, match="position"):
        card.machine.run([1, 2], 2, None)
    card.check_state()
    card.run([1, 2], 1)
    card.check_state()


# ---- what must be noticed ----


def test_a_wrong_weight_is_noticed(bench, tiny):
    """One byte of W_out of the attention, in the card's memory."""
    card = bench(tiny)
    card.run([1, 2, 3], 1)
    base = card.layout.bases[0]["out"] * card.layout.engine.beat_bytes
    card.memory(0).data[base] ^= 0x40
    with pytest.raises(AssertionError):
        for token in range(4, 24):
            card.run([token], 1)
            card.check_state()


def test_a_wrong_ring_byte_is_noticed(bench, tiny):
    card = bench(tiny)
    card.run([1, 2, 3], 1)
    base = card.layout.bases[0]["ring"] * card.layout.engine.beat_bytes
    card.memory(0).data[base] ^= 1
    with pytest.raises(AssertionError, match="ring"):
        card.check_state()


def test_a_mailbox_of_another_run_is_noticed(bench, tiny, monkeypatch):
    card = bench(tiny)
    machine = card.machine
    start = machine._card.start
    monkeypatch.setattr(machine._card, "start", lambda **scalars: start(**scalars | {"run_id": 77}))
    with pytest.raises(UserError, match="stale"):
        machine._execute(Command.RESET, watchdog=100_000)


def test_memory_behind_the_buffers_is_left_alone(bench, tiny):
    """Beyond mailbox, state, prompt and tokens the io buffer keeps its bytes; weights are never written."""
    card = bench(tiny)
    images = [card.memory(k).data.copy() for k in range(card.layout.engine.channels)]
    card.run(card.prompt(15), 6)
    low, high = (beat * card.layout.engine.beat_bytes for beat in card.layout.ring_region)
    for k, before in enumerate(images):
        after = card.memory(k).data
        assert np.array_equal(before[:low], after[:low]) and np.array_equal(before[high:], after[high:])
    assert Io.SIZE > Io.TOKENS
