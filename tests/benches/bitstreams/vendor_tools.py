"""Stand-ins for the vendor's tools: a Tcl interpreter and programs that record what they are asked for."""

import shlex
import sys
from pathlib import Path

import pytest

# Commands of Vivado that the scripts may use; anything else is a typing error.
VIVADO = {
    "create_project",
    "add_files",
    "set_property",
    "get_property",
    "current_fileset",
    "update_compile_order",
    "close_project",
    "package_xo",
    "ipx::package_project",
    "ipx::unload_core",
    "ipx::edit_ip_in_project",
    "ipx::current_core",
    "ipx::get_user_parameters",
    "ipx::remove_user_parameter",
    "ipx::associate_bus_interfaces",
    "ipx::get_bus_interfaces",
    "ipx::add_bus_parameter",
    "ipx::create_xgui_files",
    "ipx::update_checksums",
    "ipx::check_integrity",
    "ipx::save_core",
    "read_verilog",
    "read_xdc",
    "synth_design",
    "opt_design",
    "place_design",
    "phys_opt_design",
    "route_design",
    "report_timing_summary",
    "report_utilization",
    "write_checkpoint",
    "create_clock",
    "get_ports",
    "get_cells",
    "report_power",
    "report_design_analysis",
    "report_cdc",
    "report_methodology",
    "report_ram_utilization",
    "report_high_fanout_nets",
}
_RECORDER = """
set calls {}
proc unknown {args} {
    lappend ::calls $args
    switch -- [lindex $args 0] {
        ipx::current_core { return core }
        current_fileset { return sources_1 }
        ipx::get_user_parameters { return {first second} }
        ipx::get_bus_interfaces { return "bus:[lindex $args 1]" }
        ipx::add_bus_parameter { return "[lindex $args 3]/[lindex $args 2]" }
        get_property { return "property:[lindex $args 2]" }
        get_cells { return "cell:[lindex $args end]" }
        get_ports { return "port:[lindex $args 1]" }
    }
}
"""


def run_tcl(script: Path) -> list[list[str]]:
    """The Vivado commands that a script gives, word by word; an error in the script fails the test."""
    tkinter = pytest.importorskip("tkinter", reason="Python was built without Tcl")
    interpreter = tkinter.Tcl()
    interpreter.eval(_RECORDER)
    interpreter.evalfile(str(script))
    calls = [
        [str(word) for word in interpreter.splitlist(call)]
        for call in interpreter.splitlist(interpreter.getvar("calls"))
    ]
    unknown = {call[0] for call in calls} - VIVADO
    assert not unknown, f"{script.name} calls {unknown}"
    return calls


def install(folder: Path, name: str, python: str) -> None:
    """A program that appends its arguments to <folder>/log, then runs some Python with `args`."""
    text = f"""#!{sys.executable}
import pathlib, shlex, sys
args = sys.argv[1:]
with open({str(folder / "log")!r}, "a") as log:
    log.write(shlex.join([{name!r}, *args]) + "\\n")
{python}
"""
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)


def log_of(folder: Path) -> list[list[str]]:
    """What the programs in a folder were called with, questions for their version left out."""
    file = folder / "log"
    calls = [shlex.split(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [call for call in calls if call[1:] not in (["-version"], ["--version"])]
