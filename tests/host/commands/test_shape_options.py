"""Commands that take a shape take a preset, a JSON file of it, a package's config, and a package.

What does not fit a card says which card it fits.
"""

import json
from dataclasses import replace

import pytest

from symlight.base.errors import UserError
from symlight.host.commands import verilog as verilog_command
from symlight.host.device.fitting import layout_on
from symlight.host.device.kernels import engine_of
from symlight.host.device.packages import named_shape
from symlight.hw.config import BUILDS, CARDS
from symlight.model.config import preset
from symlight.model.package import load_package


@pytest.fixture(params=["preset", "shape", "config", "package"])
def tiny(request, tmp_path, package_path):
    """A name of the shape tiny."""
    file = tmp_path / "small.json"
    file.write_text(json.dumps(preset("tiny").to_json()))
    return {
        "preset": "tiny",
        "shape": file,
        "config": package_path / "config.json",
        "package": package_path,
    }[request.param]


def test_every_command_takes_every_name(symlight, tiny, tmp_path, monkeypatch):
    assert named_shape(str(tiny))[0] == preset("tiny")
    assert symlight("random-model", "--model", tiny, "--out", tmp_path / "made").code == 0
    made = load_package(tmp_path / "made")
    assert made.shape == preset("tiny") and abs(made.meta.provenance["density"] - 0.24) < 0.02
    report = symlight("estimate", "--model", tiny, "--card", "sim4", "--density", 0.3, "--json").json
    assert report["decode_cycles"] > 0
    monkeypatch.setattr(verilog_command, "write_kernel", lambda *_: None)
    assert symlight("verilog", "--model", tiny, "--out", tmp_path / "verilog").code == 0
    hbm_map = json.loads((tmp_path / "verilog" / "hbm_map.json").read_text())
    assert hbm_map["shape"] == preset("tiny").to_json()


def test_train_takes_a_file(symlight, tmp_path, monkeypatch):
    training = pytest.importorskip("symlight.model.training.trainer")
    shapes = []
    monkeypatch.setattr(training, "train", lambda *_, shape, **__: shapes.append(shape))
    (tmp_path / "corpus").write_text("a\n")
    (tmp_path / "shape.json").write_text(json.dumps(preset("odd").to_json()))
    arguments = ("train", "--out", tmp_path / "out", "--corpus", tmp_path / "corpus")
    assert symlight(*arguments, "--shape", tmp_path / "shape.json").code == 0 and shapes == [preset("odd")]
    assert "no model is called 'none'" in symlight(*arguments, "--shape", "none").error()


@pytest.mark.parametrize("command", ["random-model", "estimate", "verilog", "package"])
def test_an_unknown_name_lists_the_choices(symlight, command, tmp_path):
    out = () if command == "estimate" else ("--out", tmp_path / "out")
    sentence = symlight(command, "--model", "none", *out).error()
    assert "194m" in sentence and "JSON file" in sentence and not (tmp_path / "out").exists()


def test_what_does_not_fit_says_what_does(symlight, tmp_path):
    file = tmp_path / "shape.json"
    file.write_text(json.dumps(preset("194m").to_json()))
    sentence = symlight("verilog", "--model", file, "--card", "sim4", "--out", tmp_path / "out").error()
    assert sentence.endswith("it fits the cards u50c16, u50c28, u50c")
    wide = replace(preset("194m"), width=2048, heads=32)
    file.write_text(json.dumps(wide.to_json()))
    for command in ("verilog", "estimate", "package"):
        out = () if command == "estimate" else ("--out", tmp_path / "out")
        sentence = symlight(command, "--model", file, "--card", "u50c", *out).error()
        assert sentence.startswith("the model needs") and sentence.endswith(
            "no card holds it; make it smaller"
        )


@pytest.mark.parametrize("build", BUILDS)
def test_named_cards_do_fit(build):
    for name in ("194m", "mid"):
        for card in CARDS:
            try:
                layout_on(engine_of(card, build), preset(name))
            except UserError as error:
                cards = str(error).rpartition("cards ")[2].split(", ")
                assert cards and card not in cards
                for other in cards:
                    layout_on(engine_of(other, build), preset(name))
