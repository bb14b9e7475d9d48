"""The cache of kernels, and their manifests."""

import json

import pytest

from symlight.base.errors import UserError
from symlight.host.device import kernels
from symlight.host.device.kernels import engine_of, obtain_kernel, read_manifest
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import CARDS
from symlight.model.config import preset


def test_engines():
    assert engine_of("sim4", "runtime") == CARDS["sim4"]
    assert engine_of("sim4", "partial-kv").fixed_kv == "valid"
    with pytest.raises(UserError, match="no card preset"):
        engine_of("sim5", "runtime")


def test_a_kernel_is_generated_once(tmp_path, monkeypatch):
    made = []

    def write(folder, card, build, progress):
        made.append((card, build))
        manifest = {"kernel": "symlight", "build_id": "0f" * 16, "engine": engine_of(card, build).to_json()}
        (folder / "manifest.json").write_text(json.dumps(manifest))

    monkeypatch.setattr(kernels, "write_kernel", write)
    for _ in range(2):
        kernel = obtain_kernel("sim2", "sparse-gather", tmp_path)
        assert kernel.engine == engine_of("sim2", "sparse-gather") and kernel.build_id == int("0f" * 16, 16)
    obtain_kernel("sim2", "partial-kv", tmp_path)
    assert made == [("sim2", "sparse-gather"), ("sim2", "partial-kv")]


@pytest.mark.parametrize(
    "change, sentence",
    [
        (None, "does not exist"),
        ("{", "is not readable JSON"),
        ("[]", "an object is required"),
        ("{}", "not the manifest of a kernel"),
        ("[" * 100_000, "is not readable JSON"),
        ({"kernel": "other"}, "describes kernel 'other'"),
        ({"build_id": "xyz"}, "build_id 'xyz' is not a hexadecimal number"),
        ({"build_id": 5}, "build_id 5 is not"),
        ({"engine": []}, "an object is required"),
        ({"engine": {"channels": 4}}, "manifest.json: .* unknown or missing"),
        (
            {"engine": CARDS["sim4"].to_json() | {"channels": "4"}},
            "manifest.json: .*generate the kernel again",
        ),
    ],
)
def test_manifests_are_checked(tmp_path, change, sentence):
    file = tmp_path / "manifest.json"
    good = {"kernel": "symlight", "build_id": "00" * 16, "engine": CARDS["sim4"].to_json()}
    if change is not None:
        file.write_text(change if isinstance(change, str) else json.dumps(good | change))
    with pytest.raises(UserError, match=sentence):
        read_manifest(file)


@pytest.mark.parametrize("name", ["tiny", "odd", "wide", "demo"])
@pytest.mark.parametrize("card", ["sim2", "sim4", "sim6", "sim8"])
def test_regions_of_the_map_do_not_overlap(name, card):
    layout = Layout(CARDS[card], preset(name))
    about = hbm_map(layout)
    end = 0
    for region in about["regions"]:
        assert region["offset"] >= end and region["offset"] % 4096 == 0 and region["bytes"] > 0, region
        assert 1 <= region["channels"] <= layout.engine.channels
        end = region["offset"] + region["bytes"]
    assert end <= about["bytes_channel_0"]
    assert json.loads(json.dumps(about)) == about
