"""The card as an Amaranth platform."""

import subprocess

import pytest
from amaranth._toolchain import ToolNotFound
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.vendor import XilinxPlatform

from symlight.bitstreams.platform import AlveoU50CPlatform, tcl_settings
from symlight.hw.lib.queue import Queue
from tests.benches.bitstreams.vendor_tools import install, log_of, run_tcl


class _Sum(wiring.Component):
    """Asks the platform what it is."""

    a: In(8)
    o: Out(8)
    seen = None

    def elaborate(self, platform):
        _Sum.seen = platform
        m = Module()
        m.d.sync += self.o.eq(self.o + self.a)
        return m


def test_an_out_of_context_build(tmp_path):
    platform = AlveoU50CPlatform(clock_mhz=250)
    assert isinstance(platform, XilinxPlatform) and platform.family == "ultrascaleplus"
    platform.add_file("helper.v", "module helper; endmodule\n")
    plan = platform.build(_Sum(), "adder", do_build=False)
    assert _Sum.seen is platform
    root = plan.extract(tmp_path / "build")
    assert "module adder(" in (root / "adder.v").read_text()
    calls = run_tcl(root / "out_of_context.tcl")
    assert [call[1] for call in calls if call[0] == "read_verilog"] == [
        str(root / "adder.v"),
        str(root / "helper.v"),
    ]
    assert [
        "synth_design",
        "-top",
        "adder",
        "-part",
        "xcu50-fsvh2104-2-e",
        "-mode",
        "out_of_context",
    ] in calls
    assert run_tcl(root / "out_of_context.xdc")[1] == [
        "create_clock",
        "-name",
        "clk",
        "-period",
        "4.000",
        "port:clk",
    ]


def test_a_part_of_the_kernel(tmp_path):
    plan = AlveoU50CPlatform(clock_mhz=175).build(Queue(16, depth=1024), "queue", do_build=False)
    assert "module queue(" in plan.files["queue.v"] and "-period 5.714" in plan.files["out_of_context.xdc"]


def test_the_script(tmp_path):
    plan = AlveoU50CPlatform(clock_mhz=175).build(_Sum(), "adder", do_build=False)
    root = plan.extract(tmp_path / "build")

    def run(path):
        return subprocess.run(
            ["sh", f"{plan.script}.sh"],
            cwd=root,
            env={"PATH": f"{path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    result = run(tmp_path / "nothing")
    assert (
        result.returncode == 1
        and "vivado is not on the path" in result.stderr
        and result.stderr.count("\n") == 1
    )
    install(tmp_path, "vivado", "")
    assert run(tmp_path).returncode == 0 and log_of(tmp_path)[0][-1] == "out_of_context.tcl"


def test_building_at_once_needs_vivado(tmp_path, monkeypatch):
    component = _Sum()
    assert AlveoU50CPlatform(clock_mhz=175).build(component, "adder", do_build=False).files
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolNotFound, match="vivado"):
        AlveoU50CPlatform(clock_mhz=175).build(component, "adder", build_dir=str(tmp_path / "build"))
    assert not (tmp_path / "build").exists()


def test_tcl_settings():
    assert tcl_settings({"a": 5, "b": ["x", "y.v"]}) == "set a 5\nset b {x y.v}\n"
    for bad in ("two words", "", "a;b", "$x", "[exit]", ["a", "b}"]):
        with pytest.raises(ValueError, match="need quoting"):
            tcl_settings({"a": bad})
