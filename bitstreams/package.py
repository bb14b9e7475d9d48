"""A folder that Vivado and v++ turn into a bitstream: Verilog, kernel.xml, link.cfg, scripts, manifest.

    symlight.v, symlight_channel.v, symlight_identity.v     the kernel
    (hw.compiler.generate)
    kernel.xml, link.cfg, settings.tcl, build_id            what the scripts and the tools read
    build.sh, package_kernel.tcl, reports.tcl               the way to symlight.xclbin
    floorplan.tcl                                           which part is on which die (floorplan)
    out_of_context.tcl, out_of_context.xdc, ...             the kernel by itself                (platform)
    manifest.json                                           hw.compiler.manifest, and what is added here

Added to the manifest: `platform` (part, Vitis platform, instance, bank of every pointer), `model`, `hbm_map`
(the model it was made for), and `result`: None until `seal.seal` fills in what was really built.
The same sources give the same bytes.
"""

import json
import shutil
from pathlib import Path

from symlight.base.files import write_whole
from symlight.hw.axi import MAX_BURST
from symlight.hw.compiler.hbm_map import hbm_map
from symlight.hw.compiler.layout import Layout
from symlight.hw.compiler.manifest import CLOCK_PORT, CONTROL_PORT, PROBE
from symlight.hw.config import Engine
from symlight.hw.interface import KERNEL_NAME, arguments
from symlight.model.config import ModelShape

from .floorplan import floorplan_tcl
from .kernel_xml import LIBRARY, VENDOR, VERSION, kernel_xml
from .link import INSTANCE, bank, link_cfg
from .platform import SCRIPTS, AlveoU50CPlatform, tcl_settings

MANIFEST = "manifest.json"
EXECUTABLE, FLOORPLAN = "build.sh", "floorplan.tcl"
NO_FLOORPLAN = "# Vivado, within v++: a probe is small, and its ports lie where the tools put them.\n"
# Parameters of every memory interface: INCR bursts of whole beats only (hw.axi), and as many on their way
# as the vendor's own example for this card asks for (the default is fewer).
INTERFACE = {
    "SUPPORTS_NARROW_BURST": 0,
    "HAS_BURST": 0,
    "MAX_BURST_LENGTH": MAX_BURST,
    "NUM_READ_OUTSTANDING": 64,
    "NUM_WRITE_OUTSTANDING": 64,
}


def package_manifest(kernel: dict, shape: ModelShape | None, model: str) -> dict:
    """The manifest of a package: of the kernel (`hw.compiler.manifest`), extended for a model called
    `model`; None of a probe, which has none."""
    engine = Engine.from_json(kernel["engine"])
    return kernel | {
        "platform": {
            "part": AlveoU50CPlatform.part_name(),
            "vitis": AlveoU50CPlatform.vitis_platform,
            "instance": INSTANCE,
            "slrs": list(AlveoU50CPlatform.slrs),
            "banks": {a.name: f"HBM[{bank(a.port)}]" for a in arguments(engine.channels) if a.port},
        },
        "model": shape and {"name": model, "shape": shape.to_json()},
        "hbm_map": shape and hbm_map(Layout(engine, shape)),
        "result": None,
    }


def manifest_text(manifest: dict) -> str:
    """The bytes of manifest.json."""
    return json.dumps(manifest, indent=2, sort_keys=True) + "\n"


def write_package(kernel: Path, out: Path, shape: ModelShape | None, model: str) -> dict:
    """Write the package of a generated kernel (a folder of `hw.compiler.generate`) for a model, or of a probe
    (`shape` None), into folder `out`; returns its manifest."""
    manifest = package_manifest(json.loads((kernel / MANIFEST).read_text()), shape, model)
    engine = Engine.from_json(manifest["engine"])
    sources = sorted(manifest["files"])
    texts = {name: (kernel / name).read_text() for name in sources}
    ports = list(dict.fromkeys(a.port for a in arguments(engine.channels) if a.port))
    texts |= {
        "kernel.xml": kernel_xml(engine),
        "link.cfg": link_cfg(engine),
        FLOORPLAN: NO_FLOORPLAN if manifest["build"] == PROBE else floorplan_tcl(engine),
        "build_id": manifest["build_id"] + "\n",
        "settings.tcl": tcl_settings(
            {
                "kernel": KERNEL_NAME,
                "vendor": VENDOR,
                "library": LIBRARY,
                "version": VERSION,
                "part": AlveoU50CPlatform.part_name(),
                "clock": CLOCK_PORT,
                "control": CONTROL_PORT,
                "masters": ports,
                "parameters": [word for item in INTERFACE.items() for word in item],
                "sources": sources,
            }
        ),
        **{name: (SCRIPTS / name).read_text() for name in (EXECUTABLE, "package_kernel.tcl", "reports.tcl")},
        **AlveoU50CPlatform(clock_mhz=engine.clock_mhz).out_of_context(KERNEL_NAME, sources, CLOCK_PORT),
        MANIFEST: manifest_text(manifest),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(out / name, text)
    (out / EXECUTABLE).chmod(0o755)
    # What an earlier build left here belongs to another kernel, and must not be taken for this one's.
    (out / f"{KERNEL_NAME}.xo").unlink(missing_ok=True)
    shutil.rmtree(out / "reports", ignore_errors=True)
    return manifest
