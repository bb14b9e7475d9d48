"""The package of the probe: the same flow, another kernel."""

import json
import re

import pytest
from amaranth.lib.wiring import Out
from click.testing import CliRunner

from symlight.base.errors import UserError
from symlight.bitstreams.kernel_xml import kernel_xml
from symlight.bitstreams.link import link_cfg
from symlight.host.cli import cli, run
from symlight.host.device import opening
from symlight.host.device.opening import DeviceOptions, xclbin_kernel
from symlight.hw.axi import AxiMaster
from symlight.hw.compiler.manifest import PROBE
from symlight.hw.config import card
from symlight.tools.evidence.strict import packaged_sources, strict_findings
from tests.benches.bitstreams.vendor_tools import run_tcl
from tests.benches.places import CACHE

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    out = tmp_path_factory.mktemp("probe") / "u50c"
    assert (
        run(["package", "--kernel", "probe", "--card", "u50c", "--out", str(out), "--cache", str(CACHE)]) == 0
    )
    return out


def test_ports_and_arguments_are_those_of_the_accelerator(package):
    engine = card("u50c")
    assert (package / "kernel.xml").read_text() == kernel_xml(engine)
    assert (package / "link.cfg").read_text() == link_cfg(engine)
    manifest = json.loads((package / "manifest.json").read_text())
    assert manifest["build"] == PROBE and manifest["model"] is None and manifest["hbm_map"] is None


def test_the_ports_of_the_module_are_a_master_s(package):
    """What nothing drives would be an input."""
    text = (package / "symlight.v").read_text()
    top = re.search(r"^module symlight\(.*?^endmodule", text, re.M | re.S)[0]
    declared = dict(
        (name, way) for way, name in re.findall(r"^  (input|output) (?:\[.*?\] )?(\w+);$", top, re.M)
    )
    bus = AxiMaster(32).create()
    for k in range(32):
        for path, member, _ in bus.signature.flatten(bus):
            way = "output" if member.flow is Out else "input"
            assert declared[f"m_axi_hbm{k:02d}_{path[-1]}"] == way


def test_the_package_is_plain_verilog(package):
    files = packaged_sources(package)
    assert [file.name for file in files] == ["symlight.v", "symlight_identity.v"]
    found = strict_findings(files, "symlight")
    assert found and not any(found.values()), found


def test_the_scripts_find_what_they_name(package):
    added = [call[-1] for call in run_tcl(package / "package_kernel.tcl") if call[0] == "add_files"]
    assert added == [str(file) for file in packaged_sources(package)]
    assert run_tcl(package / "floorplan.tcl") == []


@pytest.mark.parametrize("option", [["--model", "demo"], ["--build", "resident-kv"]])
def test_options_without_effect_are_refused(tmp_path, option):
    result = CliRunner().invoke(cli, ["package", "--kernel", "probe", *option, "--out", str(tmp_path / "p")])
    assert isinstance(result.exception, UserError) and option[0] in str(result.exception)


@pytest.mark.parametrize("wanted, build, words", [(None, PROBE, "runs no model"), (PROBE, "x", "no probe")])
def test_the_other_kernel_is_refused(package, tmp_path, monkeypatch, wanted, build, words):
    manifest = json.loads((package / "manifest.json").read_text()) | {"build": build}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    file = tmp_path / "symlight.xclbin"
    file.write_bytes(b"")
    monkeypatch.setattr(opening, "check_xclbin", lambda *_: None)
    with pytest.raises(UserError, match=words):
        xclbin_kernel(DeviceOptions(xclbin=file), wanted)
    assert xclbin_kernel(DeviceOptions(xclbin=file), PROBE if build == PROBE else None).build == build


def test_the_command_measures_a_simulated_card():
    result = CliRunner().invoke(cli, ["probe", "--card", "sim2", "--bursts", "1000", "--cache", str(CACHE)])
    assert result.exit_code == 0, result.output
    assert "time between refreshes" in result.output and "none seen" not in result.output


def test_a_device_without_ports_is_refused():
    result = CliRunner().invoke(cli, ["probe", "--device", "cpu"])
    assert isinstance(result.exception, UserError) and "memory ports" in str(result.exception)
