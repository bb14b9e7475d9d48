"""Tokens and state through the simulated board, equal to the reference."""

import numpy as np
import pytest

from symlight.host.device.verify import state_difference
from tests.benches.board_bench import machines


def run_both(ours, reference, prompt, n_new):
    a, b = ours.run(prompt, n_new, None), reference.run(prompt, n_new, None)
    assert a.tokens == b.tokens
    assert np.array_equal(a.active, b.active)
    return a


def equal_state(ours, reference):
    difference = state_difference(ours.read_state(), reference.read_state())
    assert difference is None, difference


def test_a_small_model_over_the_whole_line(simulated, tiny):
    """Upload through the line, two turns, a saved state on a fresh session, the ring's wrap."""
    ours, reference = machines(simulated, tiny, short_cut=False)
    run_both(ours, reference, [5, 6, 7], 4)
    saved = reference.read_state()
    equal_state(ours, reference)
    run_both(ours, reference, [9], 14)
    equal_state(ours, reference)
    for machine in (ours, reference):
        machine.reset()
        machine.write_state(saved)
    run_both(ours, reference, [], 3)
    equal_state(ours, reference)


@pytest.mark.slow
@pytest.mark.timeout(900, func_only=True)
def test_the_demo_model(simulated, demo):
    """48 tokens, then two more turns; the ring of 64 slots wraps."""
    ours, reference = machines(simulated, demo)
    prompts = np.random.default_rng(2).integers(3, demo.shape.vocab, (3, 6)).tolist()
    for prompt, n_new in zip(prompts, (48, 12, 12), strict=True):
        run_both(ours, reference, prompt, n_new)
    assert ours.position > demo.shape.slots
    equal_state(ours, reference)
