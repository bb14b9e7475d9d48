"""Kernels of other sizes and with fixed modes: the same tokens and the same state from all."""

import numpy as np
import pytest

from symlight.host.device.state_image import RingImage
from symlight.model.config import preset
from symlight.model.synthetic import random_model

QUICK = ("sim4", "narrow8-partial-kv", "narrow6-sparse-gather", "narrow4-resident-kv")
SLOW = ("sim2", "sim8", "sim4-partial-kv", "narrow2-resident-dense")
KERNELS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.mark.parametrize("kernel_name", KERNELS)
@pytest.mark.parametrize(
    "hbm, back_pressure", [("ideal", 0.0), ("timed", 0.0), ("timed", 0.3), ("ideal", 0.6)]
)
def test_demo(bench, demo, kernel_name, hbm, back_pressure):
    """The same whatever the memory does; past the ring's end once on every kernel."""
    card = bench(demo, hbm=hbm, back_pressure=back_pressure, seed=int(10 * back_pressure) + 1)
    card.run(card.prompt(12), 5)
    card.check_state()
    card.run(card.prompt(50 if (hbm, back_pressure) == ("timed", 0.0) else 4, seed=4), 6)
    card.check_state()
    card.run([], 1)
    card.reset()
    card.run([3], 2)
    card.check_state()
    assert card.runs == 4


@pytest.mark.parametrize("kernel_name", KERNELS)
@pytest.mark.parametrize("package", ["tiny", "odd"])
def test_small_rings(bench, kernel_name, package):
    model = random_model(preset(package), 21, 0.3)
    card = bench(model, back_pressure=0.2, seed=5)
    rng = np.random.default_rng(6)
    for turn in range(6):
        card.run(rng.integers(0, model.shape.vocab, turn or 7).tolist(), int(rng.integers(0, 6)))
        card.check_state()


@pytest.mark.kernel("narrow4-resident-kv")
@pytest.mark.parametrize("count", [5, 66])
def test_a_ring_on_chip_takes_a_saved_state(bench, demo, count):
    """Before and after the ring's end: the next pass, and it alone, reads the ring from HBM; tokens and
    state are those of the session that ingested everything."""
    first = bench(demo, hbm="ideal")
    first.run(first.prompt(count), 3)
    state = first.machine.read_state()
    second = bench(demo, hbm="timed")
    second.run(second.prompt(9, seed=8), 2)  # another session's slots are on the chip
    second.machine.write_state(state)
    second.reference.write_state(state)
    second.check_state()
    ring = sum(size for *_, size in RingImage(second.layout).pieces(state.populated))
    for prompt, n_new, read in (([1, 2], 2, ring), ([], 3, 0)):
        ours, theirs = second.run(prompt, n_new), first.run(prompt, n_new)
        assert ours.tokens == theirs.tokens and second.machine.read_state() == first.machine.read_state()
        assert (ours.bytes_read["kv"], theirs.bytes_read["kv"]) == (read, 0)
    second.check_state()
    second.reset()
    second.run([3], 2)
    second.check_state()


@pytest.mark.kernel("sim4")
def test_seeds_change_cycles_and_nothing_else(bench, demo):
    """Refresh phases and random stalls move time, not results; equal seeds give equal cycles."""
    totals = []
    for seed in (1, 2, 2):
        card = bench(demo, seed=seed, back_pressure=0.1)
        totals.append(card.run(card.prompt(6), 4).cycles.total)
        card.check_state()
    assert totals[0] != totals[1] == totals[2]
