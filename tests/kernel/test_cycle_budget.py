"""The cycle budget of a pass at mid size: counts of a simulation are the same on every machine."""

from statistics import median

import pytest

from symlight.model.config import preset
from symlight.model.synthetic import random_model

# Cycles of a pass of this model on 8 ports of 16 bytes, timed memory, seed 1: the design as it is, rounded
# up. A change that costs cycles must say so here; one that saves them lowers the numbers.
BUDGET = {"prompt": 7_300, "decode": 17_760}
SLACK = 0.95  # a budget further above the design than this guards nothing


@pytest.mark.kernel("narrow8-partial-kv")
def test_budget_of_a_pass(bench):
    card = bench(random_model(preset("mid"), 32, 0.24), hbm="timed", seed=1)
    runs = {"prompt": [card.run([token], 0) for token in card.prompt(7)][1:]}
    card.run([], 1)
    runs["decode"] = [card.run([], 1) for _ in range(3)]
    for kind, found in runs.items():
        cycles = median(one.cycles.prompt + one.cycles.decode for one in found)
        print(f"{kind}: {cycles:.0f} cycles of {BUDGET[kind]}")
        assert cycles <= BUDGET[kind], (
            f"a {kind} pass takes {cycles:.0f} cycles, its budget is {BUDGET[kind]}"
        )
        assert cycles > SLACK * BUDGET[kind], (
            f"a {kind} pass takes {cycles:.0f} cycles only: lower its budget of {BUDGET[kind]}"
        )
