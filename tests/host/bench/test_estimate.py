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
from symlight.model.package import PackageMeta, save_package
from symlight.model.synthetic import calibrated


def ask(*arguments: str) -> dict:
    done = CliRunner().invoke(cli, ["estimate", "--json", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def small() -> dict:
    return ask("--model", "mid", "--card", "sim8")


def test_a_preset_has_the_density_that_is_asked():
    shape, densities = model_and_densities("194m", 0.3)
    assert shape == preset("194m")
    assert weighted_density(densities.sites, shape) == pytest.approx(0.3, abs=1e-3)
    _, usual = model_and_densities("194m", None)
    assert (
        weighted_density(usual.sites, shape) == pytest.approx(0.24, abs=1e-3)
        and len({*usual.sites[:, 0]}) == shape.layers
    )


def test_a_package_is_measured():
    shape, densities = model_and_densities("demo", None)
    assert shape == preset("demo") and densities.sites.shape == (shape.layers, 4)
    assert np.all((densities.sites > 0) & (densities.sites < 1))
    assert densities.out is densities.head is None
    _, other = model_and_densities("demo", 0.1)
    assert weighted_density(other.sites, shape) == pytest.approx(0.1, abs=1e-3)


def test_a_package_with_optional_sites_is_measured(tmp_path):
    model, _ = calibrated(preset("tiny"), 1, sites={"out": 0.4, "head": 0.3})
    save_package(tmp_path / "p", model, PackageMeta(name="p", synthetic=True))
    _, found = model_and_densities(str(tmp_path / "p"), None)
    assert found.out.mean() == pytest.approx(0.4, abs=0.1) and found.head[0] == pytest.approx(0.3, abs=0.1)


def test_single_sites_replace_what_there_was():
    _, usual = model_and_densities("194m", None)
    _, found = model_and_densities("194m", None, {"qkv": 0.5, "out": 0.4, "head": 0.3})
    assert (found.sites[:, 0] == 0.5).all() and (found.sites[:, 1:] == usual.sites[:, 1:]).all()
    assert (found.out == 0.4).all() and found.head == (0.3, 1.0)
    for bad in ({"in": 0.5}, {"out": 0}, {"head": 1.5}):
        with pytest.raises(UserError, match="--density-site"):
            model_and_densities("194m", None, bad)


def test_event_sites_save_cycles():
    """Monotonic, and about the bytes that they save; `out` waits for the mixed vector."""
    base = "qkv=.34,decay=.17,up=.39,down=.05"
    words = ("--model", "mid", "--card", "sim8", "--density-site")
    plain, head, both = (
        ask(*words, base + more) for more in ("", ",head=.3,head_g=.5", ",head=.3,head_g=.5,out=.4")
    )
    assert both["bytes_read"] < head["bytes_read"] < 0.75 * plain["bytes_read"]
    assert both["decode_cycles"] < head["decode_cycles"] < 0.8 * plain["decode_cycles"]
    assert both["density"]["out"] == 0.4 and both["density"]["head_g"] == 0.5


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
