"""Random and calibrated models: reproducible, as dense as asked, and able to talk."""

from dataclasses import replace

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.model.config import preset
from symlight.model.evaluate import weighted_density
from symlight.model.reference import SITES, Reference
from symlight.model.sequence import SequenceModel
from symlight.model.synthetic import (
    DENSITY_TOLERANCE,
    calibrated,
    layer_targets,
    random_model,
    synthesize,
)


def densities(model, seed=0, count=64):
    runner = SequenceModel(model)
    runner.residual(np.random.default_rng(seed).integers(0, model.shape.vocab, (1, count)))
    return runner.densities()


def same(a, b):
    return a.numerics == b.numerics and all((x == b.tensors()[name]).all() for name, x in a.tensors().items())


def test_seeds_decide_everything():
    shape = preset("odd")
    assert same(random_model(shape, 3), random_model(shape, 3))
    assert not same(random_model(shape, 3), random_model(shape, 4))
    assert same(synthesize(shape, 3), synthesize(shape, 3))


@pytest.mark.parametrize("name", ["tiny", "odd", "wide"])
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_empty_and_full_are_exact(name, density):
    assert (densities(random_model(preset(name), 1, density)) == density).all()


@pytest.mark.parametrize("density", [0.01, 0.24, 0.6])
def test_random_densities_are_near(density):
    measured = densities(random_model(preset("demo"), 1, density)).copy()
    measured[0, 1] = density  # the encoder's spikes have a density of their own
    assert measured.mean() == pytest.approx(density, rel=0.25, abs=0.01)


def test_sites_are_independent():
    wanted = {"qkv": 0.6, "decay": 0.0, "up": 0.2, "down": 0.1}
    measured = densities(random_model(preset("demo"), 1, wanted))
    assert not measured[:, 1].any()
    assert measured[:, 0].mean() == pytest.approx(0.6, abs=0.1)
    assert measured[:, 2].mean() == pytest.approx(0.2, abs=0.1)
    assert measured[:, 3].mean() == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize("bad", [-0.1, 1.1, {"qkv": 0.5}, dict.fromkeys(SITES, 2)])
def test_bad_densities_are_refused(bad):
    with pytest.raises(UserError, match="density"):
        random_model(preset("odd"), 1, bad)


def test_unknown_extreme_is_refused():
    with pytest.raises(UserError, match="'boring'"):
        random_model(preset("odd"), 1, extreme="boring")


def test_empty_group_leaves_one_group():
    model = random_model(preset("odd"), 1, extreme="empty_group")
    reference, seen = Reference(model), np.zeros(model.shape.width, bool)
    for token in range(20):
        trace = {}
        reference.ingest(token, trace=trace)
        for name in ("e", "s", "e_u"):
            seen |= trace[f"block.0.{name}"] != 0
        assert not trace["block.0.f"][np.arange(model.shape.ffn) % 4 != 1].any()
    assert set(np.flatnonzero(seen) % 4) == {1}


@pytest.mark.parametrize("name", ["tiny", "demo", "mid"])
@pytest.mark.parametrize("density", [0.05, 0.24])
def test_calibrated_density_and_text(name, density):
    model = synthesize(preset(name), 2, density)
    reference = Reference(model)
    run = reference.generate([1, 2, 3, 4], 16)
    shape = model.shape
    measured = run.active / run.passes / np.array([shape.width, shape.width, shape.width, shape.ffn])
    print("densities", measured.round(3).tolist(), "tokens", run.tokens)
    assert weighted_density(measured, shape) == pytest.approx(density, rel=0.15)
    assert len(set(run.tokens[:8])) >= 4


def test_layer_targets_average_to_the_density():
    shape = preset("194m")
    for density in (0.01, 0.24, 0.8):
        targets = layer_targets(shape, density, np.random.default_rng(0))
        assert targets.shape == (12, 4) and weighted_density(targets, shape) == pytest.approx(
            density, rel=1e-6
        )
        assert len(set(targets[:, 3])) == 12


@pytest.mark.parametrize("density", [0, 1, -1])
def test_synthesis_refuses_impossible_densities(density):
    with pytest.raises(UserError, match=str(density)):
        synthesize(preset("odd"), 1, density)


@pytest.mark.slow
def test_full_size():
    """About 20 s and 1 GB."""
    model = synthesize(preset("194m"), 1)
    run = Reference(model).generate([5, 6, 7], 8)
    shape = model.shape
    measured = run.active / run.passes / np.array([shape.width, shape.width, shape.width, shape.ffn])
    assert weighted_density(measured, shape) == pytest.approx(0.24, rel=0.05)
    assert len(set(run.tokens)) >= 4


@pytest.mark.parametrize("density", [0.01, 0.24, 0.5, 0.8, 0.9])
def test_the_density_is_that_of_other_tokens_too(density):
    shape = preset("tiny")
    model, reached = calibrated(shape, 0, density)
    assert abs(reached - density) <= DENSITY_TOLERANCE
    run = SequenceModel(model)
    run.residual(np.random.default_rng(9).integers(0, shape.vocab, (2, 96)))
    assert weighted_density(run.densities(), shape) == pytest.approx(reached, abs=0.02)


def test_a_density_out_of_reach_is_refused():
    with pytest.raises(UserError, match=r"the density 0.98: the nearest has 0.9\d\d; give --density 0.9\d"):
        synthesize(preset("tiny"), 0, 0.98)


@pytest.mark.parametrize("width", [1, 7])
def test_narrow_shapes_work_or_say_what_is_too_small(width):
    shape = replace(preset("odd"), width=width, heads=1, head_width=width)
    random_model(shape, 0)
    if width == 7:
        synthesize(shape, 0)
    else:
        with pytest.raises(UserError, match="a wider shape"):
            synthesize(shape, 0)


@pytest.mark.parametrize("vocab", [2, 3])
def test_a_small_vocabulary_is_enough(vocab):
    synthesize(replace(preset("tiny"), vocab=vocab), 0)
