"""Logits out of the kernel, and the host's choices from them: equal to the reference on every build."""

import numpy as np
import pytest

from symlight.host.device.choosing import Logits, RunOptions, TurnOptions
from symlight.host.device.reference_machine import ReferenceMachine
from symlight.host.device.session import Session
from symlight.host.device.verify import Verifier
from symlight.model.config import preset
from symlight.model.penalties import Penalties
from symlight.model.sampling import SamplerSettings, SamplingOptions
from symlight.model.synthetic import random_model

QUICK = ("sim4", "narrow8-partial-kv", "narrow6-sparse-gather", "narrow4-resident-kv")
SLOW = ("sim2", "sim8", "sim4-partial-kv", "narrow2-resident-dense")
KERNELS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
DEMO_SCALE = 7e-9
SAMPLED = SamplingOptions(temperature=0.8, top_p=0.95, seed=5)


@pytest.mark.parametrize("kernel_name", KERNELS)
@pytest.mark.parametrize("hbm, back_pressure", [("timed", 0.0), ("ideal", 0.6)])
def test_logits_of_every_pass(bench, demo, kernel_name, hbm, back_pressure):
    """Prompt positions included, whatever the memory does; what is not asked for is not written."""
    card = bench(demo, hbm=hbm, back_pressure=back_pressure)
    card.run(card.prompt(5), 2)
    region = slice(
        *(b * card.layout.engine.beat_bytes for b in (card.layout.logit_base, card.layout.channel_size))
    )
    assert not any(card.memory(k).data[region].any() for k in range(card.layout.engine.channels))
    prompt, options = card.prompt(4, seed=7), RunOptions(None, Logits.ALL)
    ours, theirs = (machine.run(prompt, 3, None, None, options) for machine in (card.machine, card.reference))
    assert ours.tokens == theirs.tokens and np.array_equal(ours.logits, theirs.logits)
    assert len(ours.logits) == 7 and np.array_equal(ours.active, theirs.active)
    card.check_state()


@pytest.mark.parametrize("kernel_name", KERNELS)
@pytest.mark.parametrize("package", ["tiny", "odd"])
def test_sampled_turns_and_penalties(bench, kernel_name, package):
    """Vocabularies that fill no tile; a turn in one call, token by token, and after a saved state."""
    model = random_model(preset(package), 21, 0.3)
    card = bench(model, back_pressure=0.2, seed=5)
    rows = ReferenceMachine(model).run([1, 2], 1, None, None, RunOptions(None, Logits.GENERATED)).logits
    scale = 2.0 / float(np.std(rows))
    session = Session(card.machine, verifier=Verifier(model), logit_scale=scale)
    alone = Session(ReferenceMachine(model), logit_scale=scale)
    penalised = TurnOptions(SAMPLED, Penalties(repetition=1.2, banned={3}), Logits.CANDIDATES)
    for prompt, options, interactive in (
        ([1, 2, 3], TurnOptions(SAMPLED), False),
        ([], TurnOptions(SAMPLED.with_seed(6)), True),
        ([4], TurnOptions(SAMPLED, logits=Logits.CANDIDATES), False),
        ([], TurnOptions(logits=Logits.CANDIDATES), True),
        ([9], penalised, False),
    ):
        ours = session.turn(prompt, 4, options=options, interactive=interactive).result
        theirs = alone.turn(prompt, 4, options=options).result
        assert ours.tokens == theirs.tokens
        assert np.array_equal(ours.candidates, theirs.candidates)
    state = card.machine.read_state()
    card.machine.write_state(state)
    ours = session.turn([], 4, options=TurnOptions(SAMPLED)).result
    assert ours.tokens == alone.turn([], 4, options=TurnOptions(SAMPLED)).result.tokens


GRID = [
    SamplingOptions(temperature=0.8, seed=2**64 - 1),
    SamplingOptions(temperature=0.8, top_k=1, seed=1),
    SamplingOptions(temperature=1.5, top_k=5, seed=2),
    SamplingOptions(temperature=1.0, top_p=0.5, seed=3),
    SamplingOptions(temperature=1.0, min_p=0.2, seed=1 << 62),
    SamplingOptions(temperature=1000.0, top_k=40, top_p=0.9, min_p=0.01, seed=5),
    SamplingOptions(temperature=1e-6, seed=6),
]


def in_pieces(machine, prompt, count, options):
    """The tokens of `count` runs of one token each."""
    parts = [prompt] + [[]] * (count - 1)
    return [token for part in parts for token in machine.run(part, 1, None, None, options).tokens]


@pytest.mark.parametrize("kernel_name", KERNELS)
def test_a_grid_of_settings(bench, demo, kernel_name):
    """The kernel draws what the reference draws and gives the same candidates: in one run and token by token,
    greedy in between, and behind a saved state."""
    card = bench(demo)
    assert card.machine.features.sampling
    for number, sampling in enumerate(GRID):
        prompt, options = card.prompt(3, seed=number), RunOptions(SamplerSettings.of(sampling, DEMO_SCALE))
        state = card.machine.read_state()
        listed = RunOptions(options.settings, Logits.CANDIDATES)
        expected = card.reference.run(prompt, 4, None, None, listed)
        whole = card.machine.run(prompt, 4, None, None, listed)
        card.machine.write_state(state)
        assert whole.tokens == in_pieces(card.machine, prompt, 4, options) == expected.tokens
        assert np.array_equal(whole.candidates, expected.candidates)
        card.run([7], 2)
    card.check_state()


@pytest.mark.kernel("sim4")
def test_a_choice_costs_what_the_page_says(bench, demo):
    """Against the same pass without one, in steady memory: what the lists hold the tiles up, and the choice
    behind the head."""
    card = bench(demo, hbm="ideal")
    card.run(card.prompt(9), 1)
    state = card.machine.read_state()
    plain = card.machine.run([], 1, None).cycles
    stream, turnaround = plain.phases["head"]
    wanted = [
        RunOptions(SamplerSettings.of(SamplingOptions(temperature=0.8, top_k=top_k), DEMO_SCALE), logits)
        for top_k, logits in ((1, Logits.NONE), (40, Logits.NONE), (0, Logits.NONE), (0, Logits.CANDIDATES))
    ]
    for options in (*wanted, RunOptions(None, Logits.CANDIDATES)):
        card.machine.write_state(state)
        cycles = card.machine.run([], 1, None, None, options).cycles
        held, chosen = cycles.phases["head"][0] - stream, cycles.phases["head"][1] - turnaround
        print(f"{options}: {held} cycles in the tiles, {chosen} behind them")
        assert cycles.prompt - plain.prompt == held + chosen
        assert 0 < held < 4000 and 0 < chosen <= 800


@pytest.mark.kernel("sim4")
def test_logits_cost_a_few_cycles_a_pass(bench, demo):
    """Beside the head's reads: a pass with logits against the same pass without, in steady memory."""
    card = bench(demo, hbm="ideal")
    card.run(card.prompt(9), 1)
    state = card.machine.read_state()
    plain = card.machine.run([], 1, None).cycles
    card.machine.write_state(state)
    written = card.machine.run([], 1, None, None, RunOptions(None, Logits.GENERATED)).cycles
    assert 0 <= written.prompt - plain.prompt < 0.03 * plain.prompt
