"""model.projection reproduces the paper's numbers from its inputs, up to its rounding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.model.config import preset
from symlight.model.projection import (
    LOIHI2,
    Platform,
    Projection,
    block_projections,
    communication_speedup,
    generate_gain,
    mac_density,
    prefill_gain,
    read_platform,
)

pytestmark = pytest.mark.timeout(60)


def test_generate_is_the_papers():
    gain = generate_gain(LOIHI2, [0.20], [0.67])
    assert gain.speedup == pytest.approx(1 / (0.8 + 0.2 * 0.67) / 0.20)
    assert round(gain.speedup, 1) == 5.4
    # The paper multiplies with the rounded speed-up.
    assert round(LOIHI2.generate_rate * round(gain.speedup, 1), 1) == 224.1
    assert round(LOIHI2.generate_energy / round(gain.speedup, 1)) == 75
    assert gain.rate == pytest.approx(222.2, abs=0.1) and gain.energy == pytest.approx(75.7, abs=0.1)


def test_prefill_is_the_papers():
    gain = prefill_gain(LOIHI2, [0.31], [0.61])
    assert round(gain.speedup, 1) == 3.5
    assert round(gain.rate / 1000, 1) == 23.2 and round(gain.energy, 1) == 1.1


@given(st.lists(st.floats(0.05, 1), min_size=1, max_size=12), st.integers(1, 5))
def test_the_slowest_chip_bounds_prefill(density, layers):
    platform = Platform(**{**LOIHI2.__dict__, "layers_per_chip": layers})
    packets = [0.5] * len(density)
    slow, mean = prefill_gain(platform, density, packets), generate_gain(platform, density, packets)
    if len(density) % layers == 0:
        assert slow.speedup <= mean.speedup * (1 + 1e-9)
    if layers == 1:
        assert slow.density == max(density)


def test_layers_share_chips():
    platform = Platform(**{**LOIHI2.__dict__, "layers_per_chip": 2})
    gain = prefill_gain(platform, [0.1, 0.9, 0.6, 0.6], [0.3, 0.4, 0.5, 0.6])
    assert gain.density == pytest.approx(0.6) and gain.packets == 0.5


def test_mac_density_is_weighted_by_size():
    assert mac_density([Projection(10, 10, 1.0), Projection(10, 30, 0.2)]) == pytest.approx(0.4)
    dense = block_projections(preset("194m"), (1, 1, 1, 1))
    assert mac_density(dense) == 1 and sum(p.macs for p in dense) == 768 * (5 * 768 + 2 * 4096)
    assert communication_speedup(1.0) == 1


def test_platforms_from_files(tmp_path):
    file = tmp_path / "p.json"
    data = {
        "name": "x",
        "source": "y",
        "generate_rate": 1,
        "prefill_rate": 2,
        "generate_energy": 3,
        "prefill_energy": 4,
    }
    file.write_text(json.dumps(data))
    assert read_platform(str(file)).prefill_rate == 2 and read_platform("loihi2") is LOIHI2
    for wrong in ({}, [], data | {"more": 1}, data | {"communication": 2}, data | {"layers_per_chip": 0},
                  data | {"generate_rate": "fast"}):  # fmt: skip
        file.write_text(json.dumps(wrong))
        with pytest.raises(UserError):
            read_platform(str(file))
    with pytest.raises(UserError, match="nor a JSON file"):
        read_platform("nothing")
