"""`symlight trace`: passes of the simulated card as files that Perfetto, a browser and a wave viewer open."""

import json
import tempfile
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import write_whole
from symlight.sim.build import require_tools
from symlight.sim.options import WAVEFORMS

from ..device.kernels import engine_of
from ..device.opening import DeviceOptions, OpenedDevice
from ..device.packages import open_package
from ..terminal.console import ProgressView, stderr
from ..terminal.options import PATH, cache_option, card_options, model_option
from ..trace.perfetto import trace_events
from ..trace.record import Range, trace_passes
from ..trace.timeline import timeline


@click.command()
@model_option
@card_options
@click.option("--prompt", default="In the beginning", show_default=True, metavar="TEXT")
@click.option("--from-pass", type=click.IntRange(min=0), default=0, show_default=True, metavar="N")
@click.option("--passes", type=click.IntRange(min=1), default=1, show_default=True, metavar="M")
@click.option("--out", type=PATH, metavar="FILE.json", help="Trace events, for https://ui.perfetto.dev.")
@click.option("--svg", type=PATH, metavar="FILE.svg", help="A timeline of the first traced pass.")
@click.option(
    "--wave", type=PATH, metavar="FILE.fst", help="All signals of the kernel in these passes (FST or VCD)."
)
@cache_option
def trace(
    model: str,
    card: str,
    build: str,
    prompt: str,
    from_pass: int,
    passes: int,
    out: Path | None,
    svg: Path | None,
    wave: Path | None,
    cache: Path,
):
    """Trace passes of a session on the simulated card.

    A pass is one token through all layers. Pass 0 ingests the first token of the prompt; passes after the
    prompt ingest generated tokens. The traced operations are checked against the kernel's own counters.
    """
    if out is None and svg is None and wave is None:
        raise UserError("there is nothing to write; give --out, --svg or --wave")
    waveform = "vcd" if wave is None else wave.suffix.removeprefix(".")
    if waveform not in WAVEFORMS:
        raise UserError(f"--wave {wave} is no waveform format; give FILE.fst or FILE.vcd")
    require_tools(waveform)
    package = open_package(model)
    tokens = package.tokenizer.encode(prompt)
    options = DeviceOptions(
        device="sim",
        card=card,
        build=build,
        cache=cache,
        time_limit=float("inf"),
        # a traced run is short: the time to compile is most of it
        simulation={"traceable": waveform, "assertions": False, "optimise": "-O0"},
    )
    wanted = Range(from_pass, passes)
    with tempfile.TemporaryDirectory() as folder:
        file = wave or Path(folder) / "signals.vcd"
        with ProgressView(stderr()) as progress, OpenedDevice(options, package.model, progress) as machine:
            seen = trace_passes(machine, tokens, wanted, file, everything=wave is not None)
    if out is not None:
        write_whole(out, json.dumps(trace_events(seen, engine_of(card, build).clock_mhz)) + "\n")
    if svg is not None:
        one = seen[0]
        title = (
            f"{package.meta.name}, {card}, {build}: pass {from_pass}, {one.end - one.begin:,} cycles "
            "(simulated)"
        )
        write_whole(svg, timeline(one, title))
    for written in (out, svg, wave):
        if written is not None:
            click.echo(str(written))
