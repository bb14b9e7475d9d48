"""Whatever memories and registers hold when the card is switched on: the same tokens, the same state.

Every simulated kernel begins so (sim/power_up.py); these tests do it for many seeds, with faults and resets
in between, for each of the four builds.
"""

import random

import pytest

from symlight.base.errors import UserError

SAMPLE, MANY = range(100, 102), range(200, 225)
FOUR_BUILDS = {
    "narrow8-partial-kv": False,
    "narrow6-sparse-gather": False,
    "narrow4-resident-kv": False,
    "narrow2-resident-dense": True,  # built for slow tests only
}
CASES = [
    pytest.param(name, seed, marks=pytest.mark.slow if slow or seed in MANY else ())
    for name, slow in FOUR_BUILDS.items()
    for seed in (*SAMPLE, *MANY)
]
SLVERR = 2


def fault(card, rng: random.Random) -> None:
    """A run that is cut short: by the watchdog anywhere, or by a memory that answers with an error."""
    if rng.random() < 0.5:
        card.machine._watchdog = rng.randrange(300, 6000)
    else:
        channel = rng.randrange(card.layout.engine.channels)
        low, _high = (beat * card.layout.engine.beat_bytes for beat in card.layout.ring_region)
        card.card.model.inject(channel, card.memory(channel).address, low, SLVERR, writes=False)
    with pytest.raises(UserError):
        card.machine.run(card.prompt(9, seed=rng.randrange(99)), 6, None)
    card.machine._watchdog = None
    card.card.model.clear_faults()
    card.reset()


@pytest.mark.parametrize("kernel_name, seed", CASES)
def test_any_power_up(bench, tiny, kernel_name, seed):
    rng = random.Random(seed)
    card = bench(tiny, seed=seed, back_pressure=rng.choice([0.0, 0.2]), hbm=rng.choice(["ideal", "timed"]))
    for _turn in range(3):
        card.run(card.prompt(rng.randrange(1, 12), seed=rng.randrange(99)), rng.randrange(1, 5))
        card.check_state()
        fault(card, rng)
    card.run(card.prompt(30, seed=seed), 3)
    card.check_state()
