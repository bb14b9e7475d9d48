"""Random models of many shapes and densities on one kernel, in every mode."""

import pytest

from symlight.hw.interface import Flag
from symlight.model.config import OPTIONAL_SITES, ModelShape, Numerics, preset
from symlight.model.reference import SITES
from symlight.model.synthetic import random_model

MODES = {
    "active-valid": Flag(0),
    "active-full": Flag.FULL_KV,
    "dense-valid": Flag.DENSE,
    "dense-full": Flag.DENSE | Flag.FULL_KV,
}
SEVEN_HEADS = ModelShape(
    layers=1, width=112, heads=7, head_width=16, ffn=100, vocab=257, bottleneck=33, anchors=1, window=3
)
ONE_HEAD = ModelShape(
    layers=3, width=40, heads=1, head_width=40, ffn=31, vocab=33, bottleneck=1, anchors=4, window=1
)
EIGHT_HEADS = ModelShape(
    layers=2, width=64, heads=8, head_width=8, ffn=255, vocab=500, bottleneck=32, anchors=0, window=19
)
NARROWEST = ModelShape(
    layers=1, width=1, heads=1, head_width=1, ffn=1, vocab=2, bottleneck=1, anchors=0, window=1
)

SITES_03 = dict.fromkeys(SITES, 0.3)

# name: shape, density, extreme
PACKAGES = {
    "tiny": (preset("tiny"), 0.24, None),
    "odd": (preset("odd"), 0.24, None),
    "wide": (preset("wide"), 0.24, None),
    "seven-heads": (SEVEN_HEADS, 0.3, None),
    "one-head": (ONE_HEAD, 0.5, None),
    "eight-heads": (EIGHT_HEADS, 0.24, None),
    "narrowest": (NARROWEST, 0.5, None),
    "odd-0": (preset("odd"), 0.0, None),
    "wide-1": (preset("wide"), 0.01, None),
    "tiny-100": (preset("tiny"), 1.0, None),
    "no-events-up": (preset("tiny"), {"qkv": 0.3, "decay": 0.2, "up": 0.0, "down": 0.5}, None),
    "no-spikes": (preset("odd"), {"qkv": 0.3, "decay": 0.0, "up": 0.3, "down": 0.3}, None),
    "empty-group": (preset("tiny"), 0.5, "empty_group"),
    "negative-scores": (preset("odd"), 0.4, "negative_scores"),
    "saturate": (preset("wide"), 0.5, "saturate"),
    "saturate-tiny": (preset("tiny"), 0.5, "saturate"),
    "out-tiny": (preset("tiny"), SITES_03 | {"out": 0.4}, None),
    "head-odd": (preset("odd"), SITES_03 | {"head": 0.3}, None),
    "both-wide": (preset("wide"), SITES_03 | {"out": 0.4, "head": 0.3}, None),
    "both-seven-heads": (SEVEN_HEADS, SITES_03 | {"out": 0.2, "head": 0.5}, None),
    "both-0": (preset("tiny"), dict.fromkeys((*SITES, *OPTIONAL_SITES), 0.0), None),
    "both-100": (preset("odd"), dict.fromkeys((*SITES, *OPTIONAL_SITES), 1.0), None),
}


def check(card) -> None:
    """Turns that wrap every small ring, with the state after each."""
    card.run(card.prompt(9), 6)
    card.check_state()
    card.run([], 1)
    card.run(card.prompt(3, seed=2), 0)
    card.check_state()
    card.run([], 4)
    card.check_state()
    card.reset()
    card.run(card.prompt(1, seed=3), 2)
    card.check_state()


# The full product is slow; each mode runs with every fourth package.
CASES = [
    pytest.param(
        package, mode, id=f"{package}-{mode}", marks=() if i % 4 == k or k == 0 else (pytest.mark.slow,)
    )
    for i, package in enumerate(PACKAGES)
    for k, mode in enumerate(MODES)
]


@pytest.mark.kernel("sim4")
@pytest.mark.parametrize("package, mode", CASES)
def test_package(bench, package, mode):
    shape, density, extreme = PACKAGES[package]
    model = random_model(shape, 100 + list(PACKAGES).index(package), density, extreme)
    check(bench(model, flags=MODES[mode], hbm="ideal"))


@pytest.mark.kernel("sim4")
def test_other_numerics(bench):
    """Constants of the arithmetic come with the package."""
    numerics = Numerics(score_frac=0, lif_leak=20000, lif_threshold=999, lif_clamp=3000)
    check(bench(random_model(preset("tiny"), 5, 0.3, numerics=numerics), hbm="ideal"))


@pytest.mark.kernel("sim4")
@pytest.mark.parametrize("mode", MODES)
def test_demo_package(bench, demo, mode):
    card = bench(demo, flags=MODES[mode])
    card.run(card.prompt(10), 4)
    card.check_state()
    if mode in ("active-full", "dense-valid"):  # past the ring's end
        card.run(card.prompt(54), 3)
        card.check_state()
