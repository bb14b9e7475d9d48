"""Sealing: what the manifest learns from an xclbin and from reports, and what is refused."""

import hashlib
import json
import shutil

import pytest

from symlight.base.errors import UserError
from symlight.bitstreams.axlf import encode
from symlight.bitstreams.reports import timing, utilisation
from symlight.bitstreams.seal import seal
from symlight.host.cli import run
from symlight.host.commands import packaging
from symlight.host.device.identity import check_xclbin
from symlight.host.device.kernels import read_manifest
from tests.benches.bitstreams.linked import UUID, embedded_metadata, ip_layout, key_values, linked
from tests.benches.places import CACHE

TIMING = """Copyright 1986-2022 Xilinx, Inc. All Rights Reserved.
-----------------------------------------------------------------------------------------
| Design Timing Summary
| ---------------------
-----------------------------------------------------------------------------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)
    -------      -------  ---------------------  -------------------      -------      -------
     -0.113       -4.210                     77              1234567        0.009        0.000


| Intra Clock Table
    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)
"""
UTILISATION = """1. CLB Logic
+----------------------------+--------+-------+------------+-----------+-------+
|          Site Type         |  Used  | Fixed | Prohibited | Available | Util% |
+----------------------------+--------+-------+------------+-----------+-------+
| CLB LUTs                   | 310123 |     0 |          0 |    871680 | 35.58 |
|   LUT as Logic             | 270000 |     0 |          0 |    871680 | 30.97 |
| CLB Registers              | 420456 |     0 |          0 |   1743360 | 24.12 |
+----------------------------+--------+-------+------------+-----------+-------+
| Block RAM Tile    | 412.5 |     0 |          0 |      1344 | 30.69 |
|   RAMB36/FIFO*    |   400 |     0 |          0 |      1344 | 29.76 |
| URAM           |  128 |     0 |          0 |       640 | 20.00 |
| DSPs           | 2210 |     0 |          0 |      5952 | 37.13 |
2. Summary
| CLB LUTs                   | 1 |
"""


@pytest.fixture
def folder(package_folder, tmp_path):
    """A package that may be changed, without the Verilog."""
    target = tmp_path / "package"
    shutil.copytree(package_folder, target, ignore=shutil.ignore_patterns("*.v"))
    return target


@pytest.fixture
def link(folder):
    """link(**sections): writes what v++ would have made of the package, with sections exchanged."""
    manifest = json.loads((folder / "manifest.json").read_text())

    def write(**replaced):
        file = folder / "symlight.xclbin"
        file.write_bytes(encode(linked(manifest, **replaced)))
        return file

    return write


def reports(folder):
    (folder / "reports").mkdir()
    (folder / "reports" / "timing.rpt").write_text(TIMING)
    (folder / "reports" / "utilisation.rpt").write_text(UTILISATION)


def test_a_package_is_not_sealed(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["result"] is None and read_manifest(folder / "manifest.json").xclbin is None


def test_all_that_was_built(folder, link):
    before = json.loads((folder / "manifest.json").read_text())
    file = link()
    reports(folder)
    seal(file)
    manifest = json.loads((folder / "manifest.json").read_text())
    result = manifest.pop("result")
    assert manifest == {name: value for name, value in before.items() if name != "result"}
    assert (
        result["xclbin"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        and result["xclbin"]["uuid"] == UUID
    )
    assert result["clocks_mhz"] == {"DATA_CLK": 168, "KERNEL_CLK": 500, "hbm_aclk": 400}
    assert result["slack_ns"] == {"setup": -0.113, "hold": 0.009}
    assert result["utilisation"] == {"lut": 310123, "ff": 420456, "bram36": 412.5, "uram": 128, "dsp": 2210}
    check_xclbin(file, read_manifest(folder / "manifest.json"))


def test_what_was_not_reported_stays_unknown(link):
    result = seal(link(CLOCK_FREQ_TOPOLOGY=None))["result"]
    assert (
        result["slack_ns"] is result["utilisation"] is result["clocks_mhz"] is None
        and result["xclbin"]["uuid"] == UUID
    )


ARGUMENTS = [("command", 0x10, 4, "s_axi_control"), ("run_id", 0x18, 4, "s_axi_control")]


@pytest.mark.parametrize(
    "replaced, sentence",
    [
        ({"KEYVALUE_METADATA": None}, "does not say which build it holds"),
        ({"KEYVALUE_METADATA": key_values({"build_id": "7" * 32})}, "holds build 7777"),
        ({"IP_LAYOUT": None}, "has the compute units"),
        (
            {"IP_LAYOUT": ip_layout([(1, 0, 0, "symlight:symlight_1"), (1, 0, 0, "symlight:symlight_2")])},
            "has the compute units",
        ),
        ({"EMBEDDED_METADATA": None}, "describes no kernel symlight"),
        ({"EMBEDDED_METADATA": embedded_metadata(ARGUMENTS, "other")}, "describes no kernel symlight"),
        ({"EMBEDDED_METADATA": embedded_metadata(ARGUMENTS)}, "has no argument n_prompt"),
        (
            {"EMBEDDED_METADATA": embedded_metadata([("command", 0x14, 4, "s_axi_control")])},
            "argument command at 0x14 is not as",
        ),
        (
            {"EMBEDDED_METADATA": embedded_metadata([("extra", 0x10, 4, "s_axi_control")])},
            "argument extra at 0x10 is not as",
        ),
    ],
)
def test_another_kernel_is_refused(folder, link, replaced, sentence):
    before = (folder / "manifest.json").read_bytes()
    with pytest.raises(UserError, match=sentence):
        seal(link(**replaced))
    assert (folder / "manifest.json").read_bytes() == before


def test_a_folder_without_package(tmp_path, folder, link):
    file = shutil.copy(link(), tmp_path)
    with pytest.raises(UserError, match="must be in the folder that `symlight package` wrote"):
        seal(tmp_path / "symlight.xclbin")
    for content in ("{", "[]", '{"build_id": "1"}'):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(UserError, match="manifest.json .*; package the kernel again"):
            seal(tmp_path / file.rsplit("/")[-1] if isinstance(file, str) else file)


def test_reports_that_are_none(folder, link):
    reports(folder)
    (folder / "reports" / "timing.rpt").write_text("| Design Timing Summary\n")
    with pytest.raises(UserError, match=r"timing.rpt has no design timing summary"):
        seal(link())
    with pytest.raises(UserError, match="no design timing summary"):
        timing(TIMING.replace("-0.113", "NA"))
    with pytest.raises(UserError, match="no row 'URAM'"):
        utilisation(UTILISATION.replace("| URAM ", "| other"))


def test_the_commands_that_write(kernel_folder, package_folder, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    words = ["package", "--model", "demo", "--card", "sim4", "--build", "partial-kv", "--cache", str(CACHE)]
    assert run([*words, "--out", str(out)]) == 0
    files = sorted(file.name for file in package_folder.iterdir())
    assert capsys.readouterr().out.split() == [str(out / name) for name in files]
    assert [name for name in files if (out / name).read_bytes() != (package_folder / name).read_bytes()] == []
    (tmp_path / "file").write_text("")
    assert run([*words, "--out", str(tmp_path / "file")]) == 2
    assert "is a file, a folder is needed there" in capsys.readouterr().err
    monkeypatch.setattr(packaging, "BUILDS", ["partial-kv"])
    assert run(["manifests", "--out", str(tmp_path / "m"), "--card", "sim4", "--cache", str(CACHE)]) == 0
    manifest = tmp_path / "m" / "sim4-partial-kv" / "manifest.json"
    assert manifest.read_bytes() == (out / "manifest.json").read_bytes()
    assert capsys.readouterr().out.split() == [str(manifest), json.loads(manifest.read_text())["build_id"]]


def test_the_command(folder, link, capsys):
    file = link()
    assert run(["package", "--seal", str(file)]) == 0
    assert (
        json.loads(capsys.readouterr().out)["xclbin"]["sha256"]
        == hashlib.sha256(file.read_bytes()).hexdigest()
    )
    assert run(["inspect", str(file), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert about["uuid"] == UUID and about["compute_units"] == {
        "symlight:symlight_1": "ap_ctrl_hs at 0x1800000"
    }
    assert (
        about["linked"] == "2023-11-14 22:13:20 UTC"
        and "HBM[3]" in about["memories"]
        and "HBM[4]" not in about["memories"]
    )
    assert run(["inspect", str(file)]) == 0 and "CLOCK_FREQ_TOPOLOGY" in capsys.readouterr().out
    for words, sentence in (
        (["package", "--seal", str(file.with_name("none.xclbin"))], "cannot be read"),
        (["package"], "give either --out DIR"),
        (["package", "--seal", str(file), "--out", "x"], "give either --out DIR"),
        (["inspect", str(folder / "link.cfg")], "is not an xclbin"),
        (["inspect", str(file.with_name("none.xclbin"))], "cannot be read"),
        (["package", "--model", "194m", "--card", "sim4", "--out", str(folder)], "this kernel has"),
        (["package", "--model", "nothing", "--out", str(folder)], "no model is called 'nothing'"),
    ):
        assert run(words) == 2
        err = capsys.readouterr().err.strip()
        assert sentence in err and "\n" not in err, err
