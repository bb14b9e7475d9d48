"""The cycle budget of a pass at mid size: counts of a simulation are the same on every machine."""

from statistics import median

import pytest

from symlight.model.config import preset
from symlight.model.synthetic import random_model

# Cycles of a pass of this model on 8 ports of 16 bytes, seed 1: the design as it is, rounded up. A change
# that costs cycles must say so here; one that saves them lowers the numbers. In ideal memory a pass takes the
# same cycles whenever it begins; in timed memory any other length of a run moves it against the refreshes, by
# as much as 100 cycles.
BUDGETS = {
    "timed": {"prompt": 7_330, "decode": 17_760},
    "ideal": {"prompt": 6_840, "decode": 17_300},
}
PASSES = 7
SLACK = 0.95  # a budget further above the design than this guards nothing


@pytest.mark.kernel("narrow8-partial-kv")
@pytest.mark.parametrize("hbm", BUDGETS)
def test_budget_of_a_pass(bench, hbm):
    card, budget = bench(random_model(preset("mid"), 32, 0.24), hbm=hbm, seed=1), BUDGETS[hbm]
    runs = {"prompt": [card.run([token], 0) for token in card.prompt(PASSES + 1)][1:]}
    card.run([], 1)
    runs["decode"] = [card.run([], 1) for _ in range(PASSES)]
    for kind, found in runs.items():
        cycles = median(one.cycles.prompt + one.cycles.decode for one in found)
        print(f"{hbm} {kind}: {cycles:.0f} cycles of {budget[kind]}")
        assert cycles <= budget[kind], f"a {kind} pass takes {cycles:.0f} cycles"
        assert cycles > SLACK * budget[kind], f"a {kind} pass takes {cycles:.0f} cycles: lower its budget"
