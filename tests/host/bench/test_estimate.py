"""`symlight estimate`: where densities come from, other sizes, the command's output and errors."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from symlight.base.errors import UserError
from symlight.host.cli import cli
from symlight.host.commands.estimate import model_and_densities, resized
from symlight.hw import config
from symlight.hw.compiler.layout import Layout
from symlight.model.config import preset
from symlight.model.evaluate import weighted_density


def ask(*arguments: str) -> dict:
    done = CliRunner().invoke(cli, ["estimate", "--json", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def small() -> dict:
    return ask("--model", "mid", "--card", "sim8")


def test_a_preset_has_the_density_that_is_asked():
    shape, densities = model_and_densities("194m", 0.3)
    assert shape == preset("194m") and weighted_density(densities, shape) == pytest.approx(0.3, abs=1e-3)
    _, usual = model_and_densities("194m", None)
    assert (
        weighted_density(usual, shape) == pytest.approx(0.24, abs=1e-3)
        and len({*usual[:, 0]}) == shape.layers
    )


def test_a_package_is_measured():
    shape, densities = model_and_densities("demo", None)
    assert shape == preset("demo") and densities.shape == (shape.layers, 4)
    assert np.all((densities > 0) & (densities < 1))
    _, other = model_and_densities("demo", 0.1)
    assert weighted_density(other, shape) == pytest.approx(0.1, abs=1e-3)


def test_an_unknown_model_and_a_bad_density():
    with pytest.raises(UserError, match="no model is called 'nothing'"):
        model_and_densities("nothing", None)
    with pytest.raises(UserError, match="density is 1.5"):
        model_and_densities("mid", 1.5)


def test_the_object_of_json(small):
    assert small["decode_cycles"] > small["prompt_cycles"] > 1000
    assert small["passes_per_second"] == pytest.approx(175e6 / small["decode_cycles"], rel=1e-3)
    assert sum(sum(phase.values()) for phase in small["phases"].values()) == pytest.approx(
        small["decode_cycles"], abs=5
    )
    assert 0.3 < small["read_share_of_ports"] < 1 and small["channels"] == 8 and small["lanes"] == 32


def test_what_if(small):
    """Each knob moves the figure where it must."""

    def cycles(*more):
        return ask("--model", "mid", "--card", "sim8", *more)["decode_cycles"]

    assert cycles() == small["decode_cycles"]
    assert cycles("--density", "0.4") > 1.05 * small["decode_cycles"]
    assert cycles("--build", "resident-dense") > 1.5 * small["decode_cycles"]
    assert cycles("--prefix", "128") > 1.01 * small["decode_cycles"]
    assert cycles("--clock", "300") > small["decode_cycles"] > cycles("--hbm", "ideal")
    assert cycles("--channels", "4") > 1.4 * small["decode_cycles"]
    assert cycles("--width", "64") < 0.8 * small["decode_cycles"]
    assert cycles("--max-bytes", "1024") > 1.1 * small["decode_cycles"]


@pytest.mark.parametrize("channels, lanes", [(16, None), (None, 64), (24, 32), (32, 16), (8, 32), (31, None)])
def test_a_resized_card_still_holds_the_full_model(channels, lanes):
    engine = resized(config.build(config.card("u50c"), "partial-kv"), channels, lanes)
    assert (engine.channels, engine.lanes) == (channels or 32, lanes or 32)
    if (
        engine.channels * engine.lanes >= 512
    ):  # below, a lane group would need more accumulators than an address has
        Layout(engine, preset("194m"))


def test_a_model_that_does_not_fit():
    done = CliRunner().invoke(cli, ["estimate", "--model", "194m", "--card", "sim4"])
    assert isinstance(done.exception, UserError) and "the model needs" in str(done.exception)


def test_the_tables_of_a_person():
    done = CliRunner().invoke(cli, ["estimate", "--model", "mid", "--card", "sim8"])
    assert (
        done.exit_code == 0
        and "decode pass:" in done.stdout
        and "turnaround" in done.stdout
        and done.stderr == ""
    )
