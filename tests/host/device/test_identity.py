"""Bitstream, manifest, kernel and model: what does not belong together is refused before a weight moves."""

import json

import pytest

from symlight.base.errors import UserError
from symlight.bitstreams.axlf import Section, Xclbin, encode
from symlight.host.device.identity import check_layout
from symlight.host.device.kernels import KernelInfo, read_manifest
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import CARDS
from symlight.model.config import preset
from tests.benches.host.host_bench import UUID

OTHER = "00000000-1111-2222-3333-444444444444"


@pytest.fixture
def change(xclbin):
    """change(manifest -> None): edits the manifest beside the bitstream."""

    def edit(how):
        file = xclbin.parent / "manifest.json"
        manifest = json.loads(file.read_text())
        how(manifest)
        file.write_text(json.dumps(manifest))

    return edit


def refused(on_card, fake_pyxrt) -> str:
    """The sentence of a run that must not even open the card."""
    sentence = on_card("--prompt-ids", "1 2", "--max-new-tokens", 2).error()
    assert fake_pyxrt.opened == 0 and not fake_pyxrt.commands
    return sentence


def test_what_belongs_together_runs(on_card, fake_pyxrt):
    assert on_card("--prompt-ids", "1 2", "--max-new-tokens", 2, "--json").json["tokens"]


def test_another_xclbin_under_the_same_name(on_card, fake_pyxrt, xclbin):
    xclbin.write_bytes(encode(Xclbin(uuid=OTHER)))
    sentence = refused(on_card, fake_pyxrt)
    assert f"has uuid {OTHER}" in sentence and f"says {UUID}" in sentence


def test_a_changed_byte_under_the_same_uuid(on_card, fake_pyxrt, xclbin):
    xclbin.write_bytes(encode(Xclbin(uuid=UUID, sections=[Section(0, "bitstream", b"Configuration")])))
    assert "has sha256" in refused(on_card, fake_pyxrt)


def test_a_damaged_xclbin(on_card, fake_pyxrt, xclbin):
    xclbin.write_bytes(xclbin.read_bytes()[:-3])
    assert "copy it again" in refused(on_card, fake_pyxrt)


def test_a_manifest_that_is_not_sealed(on_card, fake_pyxrt, change):
    change(lambda manifest: manifest.update(result=None))
    assert "symlight package --seal" in refused(on_card, fake_pyxrt)


@pytest.mark.parametrize("result", [5, [], {}, {"xclbin": None}, {"xclbin": {"uuid": "x"}}])
def test_a_damaged_result(on_card, fake_pyxrt, change, result):
    change(lambda manifest: manifest.update(result=result))
    assert "seal it again" in refused(on_card, fake_pyxrt)


def test_a_kernel_of_another_build(on_card, fake_pyxrt, change):
    change(lambda manifest: manifest.update(build_id="5" * 32))
    assert f"its manifest says {'5' * 32}" in on_card("--prompt-ids", "1", "--max-new-tokens", 1).error()
    assert len(fake_pyxrt.commands) == 1


def test_a_model_that_the_kernel_cannot_hold(on_card, fake_pyxrt, change, xclbin):
    change(
        lambda manifest: manifest["engine"].update(width_words=2, query_words=2)
    )  # tiny has 64 elements: 2 words
    assert on_card("--prompt-ids", "1", "--max-new-tokens", 1, "--json").json["tokens"]
    change(lambda manifest: manifest["engine"].update(state_words=2))
    before = len(fake_pyxrt.commands)
    assert "this kernel has" in on_card("--prompt-ids", "1", "--max-new-tokens", 1).error()
    assert len(fake_pyxrt.commands) == before


def info(engine, shape, **changes) -> KernelInfo:
    packaged = json.loads(json.dumps(hbm_map(Layout(engine, shape)))) | changes
    return KernelInfo(None, engine, 0, None, packaged)


def test_addresses_of_the_package_must_be_those_of_the_upload():
    engine, shape = CARDS["sim4"], preset("demo")
    assert check_layout(info(engine, shape), shape).size == Layout(engine, shape).size
    moved = info(engine, shape)
    moved.hbm_map["regions"][3]["offset"] += 4096
    with pytest.raises(UserError, match="regions of its hbm_map is not what this release would upload"):
        check_layout(moved, shape)
    with pytest.raises(UserError, match="bytes_channel_0 of its hbm_map"):
        check_layout(info(engine, shape, bytes_channel_0=0), shape)
    # another model that fits is welcome, whatever the package was made for
    assert check_layout(moved, preset("tiny")).shape == preset("tiny")


def test_an_hbm_map_that_is_none(xclbin, change):
    change(lambda manifest: manifest.update(hbm_map=[]))
    with pytest.raises(UserError, match="hbm_map is"):
        read_manifest(xclbin.parent / "manifest.json")
