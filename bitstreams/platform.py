"""The card as an Amaranth platform: its part, and out-of-context builds for it.

A kernel has no pins: the shell of the card holds them, and v++ links kernels to the shell. So the platform
has no resources, and what it builds is a checkpoint and reports of one module by itself:

    AlveoU50CPlatform(clock_mhz=175).build(component, "name", do_build=False).extract("build")
    build/build_name.sh         # runs Vivado

`build` without `do_build=False` runs Vivado at once.
"""

from pathlib import Path

from amaranth.back import verilog
from amaranth.build.run import BuildPlan
from amaranth.hdl import Elaboratable
from amaranth.vendor import XilinxPlatform

SCRIPTS = Path(__file__).parent / "scripts"
OUT_OF_CONTEXT = "out_of_context.tcl"
_SCRIPT = """#!/bin/sh
# An out-of-context build of {name}.
command -v vivado >/dev/null || {{
    echo "$0: vivado is not on the path; source settings64.sh of Vivado" >&2
    exit 1
}}
exec vivado -mode batch -nojournal -log {name}.log -source {script}
"""


class AlveoU50CPlatform(XilinxPlatform):
    """Alveo U50C (and U50, which has the same part).

    Parameters
    ----------
    clock_mhz : float
        Clock that a build is aimed at.

    Attributes
    ----------
    vitis_platform : str
        Platform that v++ links for; the card runs the deployment shell of the same base.
    slrs : tuple of str
        The dies; the first is beside the HBM.
    """

    device, package, speed = "xcu50", "fsvh2104", "2-e"
    resources, connectors = (), ()
    vitis_platform = "xilinx_u50_gen3x16_xdma_5_202210_1"
    slrs = ("SLR0", "SLR1")

    def __init__(self, *, clock_mhz: float):
        super().__init__(toolchain="Vivado")
        self.clock_mhz = clock_mhz

    @classmethod
    def part_name(cls) -> str:
        """Name of the part in Vivado."""
        return f"{cls.device}-{cls.package}-{cls.speed}"

    def prepare(
        self, elaboratable: Elaboratable, name: str = "top", *, ports: dict | None = None, clock: str = "clk"
    ) -> BuildPlan:
        """Files and commands of an out-of-context build of `elaboratable` as module `name`.

        `ports` as of `amaranth.back.verilog.convert`; `clock` is the name of its clock port. Files added with
        `add_file` whose names end in .v or .sv are read, too.
        """
        text = verilog.convert(
            elaboratable, name=name, platform=self, ports=ports, emit_src=False, strip_internal_attrs=True
        )
        plan = BuildPlan(script=f"build_{name}")
        plan.add_file(f"{name}.v", text)
        for file, content in self.extra_files.items():
            plan.add_file(file, content)
        sources = [f"{name}.v", *self.iter_files(".v", ".sv")]
        for file, content in self.out_of_context(name, sources, clock).items():
            plan.add_file(file, content)
        plan.add_file(f"{plan.script}.sh", _SCRIPT.format(name=name, script=OUT_OF_CONTEXT))
        return plan

    def out_of_context(self, top: str, sources: list[str], clock: str) -> dict[str, str]:
        """Constraints and Vivado script that build module `top` of Verilog files `sources`: name -> text."""
        settings: dict[str, object] = {"top": top, "part": self.part_name(), "sources": sources}
        period = f"{1000 / self.clock_mhz:.3f}"  # ns
        return {
            "out_of_context.xdc": f"create_clock -name {clock} -period {period} [get_ports {clock}]\n",
            "out_of_context_settings.tcl": tcl_settings(settings),
            OUT_OF_CONTEXT: (SCRIPTS / OUT_OF_CONTEXT).read_text(),
        }


def tcl_settings(values: dict[str, object]) -> str:
    """A Tcl file that sets variables; lists become Tcl lists. A word that needs quoting is refused."""
    lines = []
    for name, value in values.items():
        words = [str(word) for word in (value if isinstance(value, list) else [value])]
        if bad := [word for word in words if not word or set(word) & set(' \t\n{}[]"\\$;#')]:
            raise ValueError(f"Tcl setting {name}: {bad} need quoting")
        lines.append(
            f"set {name} {{{' '.join(words)}}}" if isinstance(value, list) else f"set {name} {words[0]}"
        )
    return "\n".join(lines) + "\n"
