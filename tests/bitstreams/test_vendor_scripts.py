"""The scripts of a package against stand-ins of the vendor's tools: what they ask for, how they stop."""

import json
import os
import shutil
import subprocess

import pytest

from symlight.base.errors import UserError
from symlight.bitstreams.axlf import encode
from symlight.bitstreams.package import write_package
from symlight.bitstreams.seal import seal
from symlight.model.config import preset
from tests.benches.bitstreams.linked import linked
from tests.benches.bitstreams.vendor_tools import install, log_of, run_tcl

PART = "xcu50-fsvh2104-2-e"
PORTS = [f"m_axi_hbm0{k}" for k in range(4)]


@pytest.fixture
def folder(package_folder, tmp_path):
    """A package that may be changed."""
    return shutil.copytree(package_folder, tmp_path / "a package")  # a path with a blank must do


def only(calls: list[list[str]], name: str) -> list[str]:
    (found,) = [call for call in calls if call[0] == name]
    return found


def test_packaging_the_kernel(folder):
    calls = run_tcl(folder / "package_kernel.tcl")
    assert only(calls, "create_project")[-2:] == ["-part", PART]
    sources = [call[-1] for call in calls if call[0] == "add_files"]
    assert sources == [
        str(folder / name) for name in ("symlight.v", "symlight_channel.v", "symlight_identity.v")
    ]
    assert ["set_property", "top", "symlight", "sources_1"] in calls
    project = only(calls, "ipx::package_project")
    assert (
        project[project.index("-vendor") + 1] == "symlight"
        and project[project.index("-library") + 1] == "kernel"
    )
    assert 'vlnv="symlight:kernel:symlight:1.0"' in (folder / "kernel.xml").read_text()
    assert ["set_property", "version", "1.0", "core"] in calls
    removed = [call[1] for call in calls if call[0] == "ipx::remove_user_parameter"]
    assert removed == ["property:first", "property:second"]
    clocked = {call[2]: call[4] for call in calls if call[0] == "ipx::associate_bus_interfaces"}
    assert clocked == dict.fromkeys(["s_axi_control", *PORTS], "ap_clk")
    values = {call[3]: call[2] for call in calls if call[:2] == ["set_property", "value"]}
    assert values == {
        f"bus:{port}/{name}": value
        for port in PORTS
        for name, value in (
            ("SUPPORTS_NARROW_BURST", "0"),
            ("HAS_BURST", "0"),
            ("MAX_BURST_LENGTH", "16"),
            ("NUM_READ_OUTSTANDING", "64"),
            ("NUM_WRITE_OUTSTANDING", "64"),
        )
    }
    assert ["set_property", "sdx_kernel", "true", "core"] in calls
    order = [call[0] for call in calls]
    assert order.index("ipx::check_integrity") < order.index("ipx::save_core") < order.index("package_xo")
    assert only(calls, "package_xo") == [
        "package_xo",
        "-force",
        "-xo_path",
        str(folder / "symlight.xo"),
        "-kernel_name",
        "symlight",
        "-ip_directory",
        str(folder / "work" / "ip"),
        "-kernel_xml",
        str(folder / "kernel.xml"),
    ]


def test_out_of_context(folder):
    calls = run_tcl(folder / "out_of_context.tcl")
    assert ["synth_design", "-top", "symlight", "-part", PART, "-mode", "out_of_context"] in calls
    assert [call[1] for call in calls if call[0] == "read_verilog"] == sorted(map(str, folder.glob("*.v")))
    assert ["read_xdc", "-mode", "out_of_context", str(folder / "out_of_context.xdc")] in calls
    steps = [call[0] for call in calls if call[0].endswith("_design")]
    assert steps == ["synth_design", "opt_design", "place_design", "phys_opt_design", "route_design"]
    assert only(calls, "report_timing_summary")[-1] == str(folder / "out_of_context" / "timing.rpt")
    assert run_tcl(folder / "out_of_context.xdc") == [
        ["get_ports", "ap_clk"],
        ["create_clock", "-name", "ap_clk", "-period", "5.714", "port:ap_clk"],
    ]


def test_reports_go_where_sealing_looks(folder):
    files = {call[-1] for call in run_tcl(folder / "reports.tcl")}
    assert {str(folder / "reports" / "timing.rpt"), str(folder / "reports" / "utilisation.rpt")} <= files


def test_a_broken_script_is_seen(folder):
    script = folder / "package_kernel.tcl"
    text = script.read_text()
    for damage, error in (
        (lambda t: t.replace("ipx::save_core", "ipx::safe_core"), AssertionError),
        (lambda t: t.replace("$masters", "$slaves"), Exception),
        (lambda t: t.rsplit("}", 1)[0], Exception),
    ):
        script.write_text(damage(text))
        with pytest.raises(error):
            run_tcl(script)


# ---- build.sh ----


def build(folder, tools, *arguments) -> subprocess.CompletedProcess:
    """Run build.sh with nothing on the path but the system's own programs and `tools`."""
    return subprocess.run(
        [folder / "build.sh", *arguments],
        env={"PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def tools(tmp_path):
    """Programs as if Vitis were installed."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    install(bin_, "vivado", "pathlib.Path('symlight.xo').write_text('object')")
    install(bin_, "v++", "pathlib.Path(args[args.index('--output') + 1]).write_text('linked')")
    install(bin_, "xclbinutil", "pathlib.Path(args[args.index('--output') + 1]).write_text('named')")
    return bin_


@pytest.mark.parametrize("target", [(), ("object",), ("emulation",), ("out_of_context",)])
def test_without_the_tools_it_stops_in_one_sentence(folder, tmp_path, target):
    if any(shutil.which(tool, path="/usr/bin:/bin") for tool in ("vivado", "v++")):
        pytest.skip("the vendor's tools are among the system's programs")
    before = sorted(os.listdir(folder))
    result = build(folder, tmp_path / "nothing", *target)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr == (
        "build.sh: vivado is not on the path; source settings64.sh of Vitis and setup.sh of XRT, "
        "and run this again\n"
    )
    assert sorted(os.listdir(folder)) == before


def test_without_the_linker_nothing_is_begun(folder, tools):
    (tools / "v++").unlink()
    result = build(folder, tools)
    assert (
        result.returncode == 1
        and result.stderr.startswith("build.sh: v++ is not on the path")
        and not log_of(tools)
    )


def test_an_unknown_target(folder, tools):
    result = build(folder, tools, "everything")
    assert result.returncode == 1 and result.stderr.startswith(
        "build.sh: everything is unknown; known: object"
    )


def test_the_whole_build(folder, tools):
    (folder / "symlight.xo").write_text("of an earlier package")
    result = build(folder, tools)
    assert result.returncode == 0, result.stderr
    vivado, link, name = log_of(tools)
    assert vivado[-2:] == ["-source", "package_kernel.tcl"]
    assert link[1:4] == ["--link", "--target", "hw"] and link[-1] == "symlight.xo" and "link.cfg" in link
    properties = [link[i + 1] for i, word in enumerate(link) if word == "--vivado.prop"]
    assert properties == [
        f"run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE={folder}/floorplan.tcl",
        f"run.impl_1.STEPS.ROUTE_DESIGN.TCL.POST={folder}/reports.tcl",
    ]
    build_id = json.loads((folder / "manifest.json").read_text())["build_id"]
    assert name[name.index("--key-value") + 1] == f"USER:build_id:{build_id}"
    assert name[name.index("--input") + 1] == link[link.index("--output") + 1]
    assert (folder / "symlight.xclbin").read_text() == "named" and "symlight package --seal" in result.stdout


@pytest.mark.parametrize("version, told", [("2022.2", False), ("2024.1", True), ("", True)])
def test_an_unknown_version_is_told_and_tried(folder, tools, version, told):
    answer = f"print('Vivado v{version} (64-bit)')" if version else "pass"
    body = "pathlib.Path('symlight.xo').write_text('object')"
    install(tools, "vivado", f"if args == ['-version']: {answer}\nelse: {body}")
    result = build(folder, tools, "object")
    assert result.returncode == 0
    assert ("links of this platform are known of 2022.2 2023.2" in result.stderr) == told
    assert not told or (version or "unknown version") in result.stderr


def test_other_targets(folder, tools):
    assert build(folder, tools, "object").returncode == 0 and len(log_of(tools)) == 1
    assert (
        build(folder, tools, "out_of_context").returncode == 0
        and log_of(tools)[-1][-1] == "out_of_context.tcl"
    )
    assert build(folder, tools, "emulation").returncode == 0
    _, link, name = log_of(tools)[-3:]
    assert (
        link[1:4] == ["--link", "--target", "hw_emu"]
        and "--vivado.prop" not in link
        and name[-1] == "symlight.hw_emu.xclbin"
    )
    assert not (folder / "symlight.xclbin").exists()


def test_a_tool_that_fails_ends_the_build(folder, tools):
    install(tools, "v++", "sys.exit(3)")
    assert build(folder, tools).returncode == 3 and not (folder / "symlight.xclbin").exists()
    install(tools, "vivado", "")
    result = build(folder, tools)
    assert (
        result.returncode == 1 and "Vivado wrote no symlight.xo; package_kernel.log says why" in result.stderr
    )


def test_from_package_to_sealed_manifest(folder, tools):
    """What a linker makes of this package can be sealed; what it makes of another cannot."""
    manifest = json.loads((folder / "manifest.json").read_text())
    image = tools / "image"
    image.write_bytes(encode(linked(manifest)))
    install(
        tools,
        "xclbinutil",
        f"import shutil; shutil.copy({str(image)!r}, args[args.index('--output') + 1])",
    )
    assert build(folder, tools).returncode == 0
    assert seal(folder / "symlight.xclbin")["result"]["xclbin"]["file"] == "symlight.xclbin"
    image.write_bytes(encode(linked(manifest | {"build_id": "9" * 32})))
    assert build(folder, tools).returncode == 0
    with pytest.raises(UserError, match="holds build 9999"):
        seal(folder / "symlight.xclbin")


def test_packaging_again_forgets_the_earlier_build(kernel_folder, folder):
    (folder / "symlight.xo").write_text("")
    (folder / "reports").mkdir()
    (folder / "reports" / "timing.rpt").write_text("")
    write_package(kernel_folder, folder, preset("demo"), "demo")
    assert not (folder / "symlight.xo").exists() and not (folder / "reports").exists()
    assert json.loads((folder / "manifest.json").read_text())["result"] is None
