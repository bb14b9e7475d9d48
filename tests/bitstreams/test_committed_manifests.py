"""The manifests that the source tree carries, and that generation gives the same bytes every time.

A change of the generator makes the committed ids stale until `make manifests` is run. By default a stale
manifest is only told (a skipped test); the slow tests fail on it.
"""

import json
import os
import re
import subprocess
import sys

import pytest

from symlight.bitstreams.package import manifest_text, package_manifest
from symlight.host.commands.packaging import COMMITTED, committed_manifest
from symlight.host.device.machine import silent
from symlight.hw.compiler.sources import generator_digest
from symlight.hw.config import BUILDS
from symlight.model.config import PRESETS
from tests.benches.places import ROOT

NAMES = [(card, build) for card in COMMITTED for build in BUILDS]


def committed(card: str, build: str) -> dict:
    path = ROOT / "bitstreams" / f"{card}-{build}" / "manifest.json"
    if not path.exists():
        pytest.skip("this manifest has not been written yet; run `make manifests`")
    return json.loads(path.read_text())


def without(manifest: dict) -> dict:
    """What must come out again: all but the generator's digest (comments) and what was built since."""
    return {name: value for name, value in manifest.items() if name not in ("generator", "result")}


@pytest.mark.parametrize("card, build", NAMES)
def test_a_committed_manifest_is_one(card, build):
    manifest = committed(card, build)
    assert (manifest["card"], manifest["build"], manifest["model"]["name"]) == (card, build, COMMITTED[card])
    assert re.fullmatch("[0-9a-f]{32}", manifest["build_id"])
    assert manifest["platform"]["part"] == "xcu50-fsvh2104-2-e" and manifest["hbm_map"]["regions"]
    assert sorted(manifest["files"]) == ["symlight.v", "symlight_channel.v", "symlight_identity.v"]


def test_every_build_has_its_own_id():
    written = [name for name in NAMES if (ROOT / "bitstreams" / "-".join(name)).is_dir()]
    assert len(written) >= 2 * len(BUILDS)
    assert len({committed(*name)["build_id"] for name in written}) == len(written)


def test_a_small_kernel_is_generated_as_committed(kernel_folder):
    manifest = committed("sim4", "partial-kv")
    if manifest["generator"] != generator_digest():
        pytest.skip("hw/ or model/ has changed since the manifests were written; run `make manifests`")
    kernel = json.loads((kernel_folder / "manifest.json").read_text())
    assert without(package_manifest(kernel, PRESETS["demo"], "demo")) == without(manifest)


@pytest.mark.slow
@pytest.mark.timeout(1800, func_only=True)
@pytest.mark.parametrize("card, build", NAMES)
def test_every_kernel_is_generated_as_committed(card, build, tmp_path):
    manifest = json.loads(committed_manifest(card, build, tmp_path, silent))
    assert without(manifest) == without(committed(card, build)), "run `make manifests`"


_GENERATE = """
import sys
from dataclasses import replace
from pathlib import Path
from symlight.bitstreams.package import write_package
from symlight.hw.config import CARDS, build
from symlight.hw.compiler.generate import generate
from symlight.model.config import preset

engine = build(replace(CARDS["sim2"], channels=1, lanes=16, kv_beats=4096), "sparse-gather")
folder = Path(sys.argv[1])
generate(engine, folder / "kernel", build="sparse-gather")
write_package(folder / "kernel", folder / "package", preset("tiny"), "tiny")
"""


@pytest.mark.timeout(600, func_only=True)
def test_generation_gives_the_same_bytes_in_every_process(tmp_path):
    folders = [tmp_path / "first", tmp_path / "second in another place"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _GENERATE, str(folder)], env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed, folder in zip(("1", "20261130"), folders, strict=True)
    ]
    try:
        assert [process.wait(timeout=580) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    first, second = (
        {file.name: file.read_bytes() for file in (folder / "package").iterdir()} for folder in folders
    )
    assert first.keys() == second.keys() and len(first) >= 14
    assert [name for name in first if first[name] != second[name]] == []


def test_an_id_follows_the_content(tmp_path):
    from symlight.hw.compiler import generate as module
    from symlight.hw.config import CARDS

    def build_id(monkey: dict) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                module, "channel_verilog", lambda engine: monkey.get("channel", "module c; endmodule\n")
            )
            patch.setattr(
                module, "kernel_verilog", lambda engine: monkey.get("kernel", "module k; endmodule\n")
            )
            patch.setattr(module.symlight, "__version__", monkey.get("version", "1"))
            manifest = module.generate(monkey.get("engine", CARDS["sim4"]), tmp_path)
        text = (tmp_path / "symlight_identity.v").read_text()
        assert f"128'h{manifest['build_id']}" in text
        return manifest["build_id"]

    changes = ({}, {"channel": "x"}, {"kernel": "x"}, {"version": "2"}, {"engine": CARDS["sim2"]})
    assert len({build_id(change) for change in changes}) == len(changes) and build_id({}) == build_id({})
    assert manifest_text({"b": 1, "a": 2}) == '{\n  "a": 2,\n  "b": 1\n}\n'
