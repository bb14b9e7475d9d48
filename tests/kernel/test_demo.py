"""The shipped model on the card: whole runs, single tokens, turns, ends, resets."""

import numpy as np
import pytest

from symlight.host.device.reference_machine import ReferenceMachine
from symlight.hw.config import BUILDS
from symlight.hw.interface import Flag

PROMPT = [5, 300, 17, 901, 64, 64, 3, 250]
pytestmark = pytest.mark.kernel("sim4")


@pytest.fixture(params=["partial-kv", "sparse-gather", "resident-dense"])
def card(request, bench, demo):
    """A card with the demo package, in the modes of each build: the kernel of these tests fixes none."""
    switches = BUILDS[request.param]
    dense, full = switches["fixed_gather"] == "dense", switches["fixed_kv"] == "full"
    return bench(demo, hbm="ideal", flags=Flag.DENSE * dense | Flag.FULL_KV * full)


def test_p32_n128_continuous(card):
    """One run passes the ring's end: 159 positions in 64 slots."""
    result = card.run(card.prompt(32), 128)
    assert len(result.tokens) == 128 and result.passes == 159
    card.check_state()


def test_one_token_a_run_equals_one_run(card):
    whole = card.run(PROMPT, 12)
    state = card.machine.read_state()
    card.reset()
    tokens = card.run(PROMPT, 1).tokens
    for _ in range(11):
        tokens += card.run([], 1).tokens
    assert tokens == whole.tokens
    assert card.machine.read_state() == state
    card.check_state()


def test_one_token(card):
    assert len(card.run(PROMPT, 1).tokens) == 1
    card.check_state()


def test_no_token(card):
    """N = 0 ingests all but the last; a single token only becomes pending; nothing else changes."""
    result = card.run([7], 0)
    assert (result.tokens, result.passes, card.machine.position, card.machine.pending) == ([], 0, 0, 7)
    card.check_state()
    result = card.run(PROMPT, 0)
    assert (result.tokens, result.passes, card.machine.position) == ([], 8, 8)
    assert result.bytes_read["head"] == result.bytes_read["prior"] == 0
    card.check_state()
    card.run([], 0)
    assert card.machine.position == 8
    card.run([], 3)
    card.check_state()


@pytest.mark.parametrize("place", [0, 5])
def test_eos_ends_the_run_in_its_pass(card, demo, place):
    """As the first token and inside a turn; it stays pending and the next turn ingests it."""
    expected = ReferenceMachine(demo).run(PROMPT, 12, None).tokens
    eos = expected[place]
    count = expected.index(eos) + 1
    result = card.run(PROMPT, 12, eos)
    assert (result.tokens, result.stop_reason, result.passes) == (expected[:count], "eos", 8 + count - 1)
    assert card.machine.pending == eos
    card.check_state()
    card.run([9, 10], 4, eos)
    card.check_state()


def test_conversation_of_24_turns(card, demo):
    """Continuous and resumed turns of 0 to 7 tokens over both ends of the ring; the whole state after
    each."""
    rng = np.random.default_rng(3)
    ingested, lengths = 0, set()
    for turn in range(24):
        count = (turn * 5 + 3) % 7
        prompt = rng.integers(0, demo.shape.vocab, count).tolist()
        n_new = 0 if turn == 5 else (turn * 3) % 8
        if turn % 3 == 2 and n_new > 1:
            result = card.run(prompt, 1)
            for _ in range(n_new - 1):
                card.run([], 1)
            made = n_new
        else:
            result = card.run(prompt, n_new)
            made = len(result.tokens)
        lengths.add((count > 0, made > 0))
        ingested += count + made
        assert card.machine.position == ingested - 1, "what the device holds must not be ingested again"
        card.check_state()
    assert card.machine.position > 2 * demo.shape.slots
    assert len(lengths) == 4, "turns without prompt, without new tokens, and without either"


def test_reset_leaves_nothing_of_a_full_ring(bench, demo):
    card = bench(demo, hbm="ideal", flags=Flag.FULL_KV)
    card.run(card.prompt(70), 2)
    card.reset()
    card.run([42], 6)
    card.check_state()
    fresh = bench(demo, hbm="ideal", flags=Flag.FULL_KV)
    again = fresh.run([42], 6)
    assert again.passes == 6
    assert fresh.machine.read_state() == card.machine.read_state()


def test_state_moves_to_another_card(bench, demo):
    """Dump, load into a card that has held something else, and both go on alike."""
    first = bench(demo, hbm="ideal")
    first.run(first.prompt(66), 3)
    state = first.machine.read_state()
    second = bench(demo, seed=9)
    second.run(second.prompt(20, seed=8), 2)
    second.machine.write_state(state)
    second.reference.write_state(state)
    second.check_state()
    assert second.run([1, 2], 5).tokens == first.run([1, 2], 5).tokens
    assert second.machine.read_state() == first.machine.read_state()
    second.check_state()
