"""`symlight verilog`: the Verilog of a kernel, its manifest, and a model's memory map on it."""

import json
from pathlib import Path

import click

from symlight.base.files import write_whole
from symlight.hw.compiler.hbm_map import hbm_map

from ..device.fitting import layout_on
from ..device.kernels import engine_of, write_kernel
from ..device.packages import named_shape
from ..terminal.console import ProgressView, stderr
from ..terminal.options import card_options, out_option, shape_option

HBM_MAP = "hbm_map.json"


@click.command()
@shape_option("demo")
@card_options
@out_option
def verilog(model: str, card: str, build: str, out: Path):
    """Write the Verilog of a kernel, its manifest, and the memory map of a model on it."""
    console = stderr()
    shape, _ = named_shape(model)
    layout = layout_on(engine_of(card, build), shape)  # refuse a model that does not fit before the long part
    out.mkdir(parents=True, exist_ok=True)
    with ProgressView(console) as progress:
        write_kernel(out, card, build, progress)
    write_whole(out / HBM_MAP, json.dumps(hbm_map(layout), indent=2) + "\n")
    for file in sorted(out.iterdir()):
        click.echo(str(file))
