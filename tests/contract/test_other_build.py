"""A generated kernel under the manifest of another generated kernel: the kernel's own mailbox gives it away,
and no weight has been moved by then. On simulated cards and on a real card."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from symlight.base.errors import UserError
from symlight.host.device.card import Card
from symlight.host.device.kernels import KernelInfo, read_manifest
from symlight.host.device.opening import DeviceOptions, OpenedDevice
from symlight.sim import card as cards
from tests.benches.contract.devices import NEWEST, simulated
from tests.benches.contract.releases import binding
from tests.benches.places import ROOT

pytestmark = pytest.mark.timeout(120, func_only=True)
MANIFESTS = ROOT / "bitstreams"


@pytest.fixture
def other() -> KernelInfo:
    """Of the same channels and lanes, but another kernel."""
    return read_manifest(MANIFESTS / "sim4-sparse-gather" / "manifest.json")


@pytest.fixture
def written(monkeypatch) -> list[str]:
    """Names of the buffers that the driver wrote, one for every write."""
    names = []
    write = Card.write

    def note(card, name, offset, data):
        names.append(name)
        write(card, name, offset, data)

    monkeypatch.setattr(Card, "write", note)
    return names


def sentence(mine: KernelInfo, other: KernelInfo) -> str:
    return f"is build {mine.build_id:032x}, its manifest says {other.build_id:032x}"


@pytest.mark.parametrize("loaded", [False, True], ids=["fresh", "loaded"])
def test_another_build_is_refused_before_a_weight_moves(dut, other, written, loaded):
    """A fresh kernel refuses the driver's first command, one with a model obeys it; both say who they are."""
    assert other.build_id != dut.kernel.build_id
    if loaded:
        dut.machine()
        assert {name for name in written if name != "io"} == {
            f"hbm{k:02d}" for k in range(dut.kernel.engine.channels)
        }
        dut.close()
        written.clear()
    with pytest.raises(UserError, match=sentence(dut.kernel, other)):
        dut.machine(build_id=other.build_id)
    assert written and set(written) == {"io"}
    if dut.name == "sim":  # where new device memory has known contents
        (card,) = dut.opened
        for name, buffer in card._buffers.items():
            assert name == "io" or np.all(card.read(name, 0, buffer.size()) == cards.UNWRITTEN), name
    dut.close()
    assert len(dut.machine().run([1, 2], 2, None).tokens) == 2  # under its own manifest


def test_another_build_is_refused_by_the_whole_chain(other, written, tmp_path, monkeypatch):
    """A manifest that is sealed with this xclbin, and says another build."""
    dut = simulated(binding(NEWEST))
    monkeypatch.setitem(sys.modules, "pyxrt", dut.api)
    folder = shutil.copytree(Path(dut.xclbin).parent, tmp_path / "linked")
    options = DeviceOptions(device="xrt:0", xclbin=folder / "symlight.xclbin", cache=tmp_path, time_limit=60)
    with OpenedDevice(options, dut.model) as machine:
        assert len(machine.run([1, 2], 2, None).tokens) == 2
    written.clear()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["build_id"] = f"{other.build_id:032x}"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with (
        pytest.raises(UserError, match=f"the kernel on xrt:0 {sentence(dut.kernel, other)}"),
        OpenedDevice(options, dut.model),
    ):
        pass
    assert written and set(written) == {"io"}
    cards._cards.clear()
