"""`symlight probe`: measure the memory ports of a card with the probe kernel, in the memory model's terms."""

from contextlib import ExitStack
from pathlib import Path

import click
from rich.table import Table

from symlight.base.cache import exclusive, room
from symlight.base.errors import UserError
from symlight.hw.compiler.manifest import PROBE
from symlight.hw.interface import arguments

from ...device.card import Card
from ...device.kernels import obtain_kernel
from ...device.opening import DeviceOptions, import_pyxrt, simulated_api, xclbin_kernel
from ...measure.probe import STREAM_BURSTS, ProbeRunner, Summary, measure
from ...terminal.console import ProgressView, stderr, stdout
from ...terminal.options import PATH, cache_option, card_option, device_option, refuse_given
from ..bench import hbm_settings


@click.command("probe")
@device_option("sim")
@card_option("sim4")
@click.option("--xclbin", type=PATH, metavar="FILE", help="The probe's bitstream; its manifest is beside it.")
@click.option("--bursts", type=click.IntRange(100, 1 << 22), help="Of every port and measurement.")
@click.option(
    "--hbm-set",
    callback=hbm_settings,
    metavar="NAME=VALUE,...",
    help="Parameters of the simulated memory, by the names of sim/harness/hbm.h.",
)
@click.option("--refresh-seed", type=int, default=1, show_default=True, help="Refresh phases (sim).")
@cache_option
def probe(
    device: str,
    card: str,
    xclbin: Path | None,
    bursts: int | None,
    hbm_set: tuple[tuple[str, int], ...],
    refresh_seed: int,
    cache: Path | None,
):
    """Measure latency, bandwidth and refreshes of a card's memory with a kernel that only reads."""
    kind, _, address = device.partition(":")
    if kind not in ("sim", "xrt"):
        raise UserError(f"device {device!r} has no memory ports to measure; give sim or xrt:N")
    refuse_given(
        ["card", "hbm_set", "refresh_seed"] if kind == "xrt" else ["xclbin"], f"on device {device!r}"
    )
    options = DeviceOptions(
        device=device,
        card=card,
        build=PROBE,
        xclbin=xclbin,
        cache=cache,
        refresh_seed=refresh_seed,
        simulation={"hbm_settings": dict(hbm_set)} if hbm_set else {},
    )
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressView(stderr()))
        if kind == "sim":
            kernel = obtain_kernel(card, PROBE, cache, progress)
            api, file = simulated_api(kernel, options, progress)
            index: int | str = 0
        else:
            api, kernel, file = import_pyxrt(), xclbin_kernel(options, PROBE), str(xclbin)
            index = int(address or 0) if (address or "0").isdigit() else address
            name = f"device {str(index).replace('/', '_')}"
            stack.enter_context(exclusive(room(cache, ""), name, wait=False))
        opened = Card(api, index, file, arguments(kernel.engine.channels))
        stack.callback(opened.close)
        runner = ProbeRunner(opened, kernel.engine, kernel.build_id)
        few = STREAM_BURSTS // 10 if kind == "sim" else STREAM_BURSTS
        summary = measure(runner, kernel.engine.channels, bursts=bursts or few, say=lambda line: None)
    stdout().print(_table(summary))


def _table(summary: Summary) -> Table:
    table = Table("measured", "over the ports", "parameter of the memory model")

    def line(what: str, values: tuple[float, float] | None, unit: str, parameter: str) -> None:
        least, most = values or (None, None)
        text = "none seen" if values is None else f"{least:.4g} to {most:.4g} {unit}"
        table.add_row(what, text, parameter)

    line("latency of a beat by itself", summary.idle_latency_ns, "ns", "latency, request")
    line("time between refreshes", summary.refresh_interval_ns, "ns", "trefi (ticks of 1.11 ns)")
    line("delay by a refresh, at most", summary.refresh_ns, "ns", "trfc + trp + trcd")
    for flying, rates in summary.bandwidth.items():
        line(f"a port with {flying} bursts on their way", rates, "GB/s", "")
    table.add_row("bursts that suffice", str(summary.saturated_at), "bursts, bytes")
    line("longest wait of a full stream", summary.stream_gap_ns, "ns", "buffer; 0 hides refreshes")
    return table
