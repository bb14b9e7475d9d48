"""`symlight bench`: cycles, bytes and port utilisation of a model's passes, bit-exact against the
reference."""

from collections.abc import Sequence
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import check_file
from symlight.hw import config
from symlight.sim.hbm import header_constants

from ..bench.bench_report import print_bench
from ..bench.protocol_run import bench_in_rounds, protocol_options, take_protocol
from ..bench.simulation import STATES, BenchSettings, bench_package
from ..device.machine import Standing, check_counts
from ..device.opening import DeviceOptions
from ..device.packages import open_package
from ..device.verify import VerificationError
from ..terminal.console import ProgressView, stderr, stdout
from ..terminal.options import PATH, ListCommand, cache_option, model_option, threads_option, workload_options
from ..terminal.results import print_json, write_json


def hbm_settings(_context, _option, text: str | None) -> tuple[tuple[str, int], ...]:
    """Parameters of the memory model as (name, value), in the order in which they were given."""
    known = sorted(name for name in header_constants() if name.islower())
    found = []
    for item in (text or "").split(",") if text else ():
        name, _, value = item.partition("=")
        if name not in known or not value.isdecimal():
            raise UserError(f"--hbm-set: {item!r} is not NAME=VALUE with a NAME of {', '.join(known)}")
        found.append((name, int(value)))
    return tuple(found)


@click.command(cls=ListCommand)
@model_option
@protocol_options
@workload_options
@click.option(
    "--prefix",
    "prefixes",
    type=click.IntRange(min=2),
    multiple=True,
    metavar="P...",
    help=f"Prompt tokens; several are measured in rounds.  [default: {BenchSettings.prefix}]",
)
@click.option(
    "--new-tokens",
    type=click.IntRange(min=2),
    metavar="N",
    help=f"Tokens to generate.  [default: {BenchSettings.new_tokens}]",
)
@click.option(
    "--clock",
    type=click.IntRange(min=1),
    metavar="MHZ",
    help="Kernel clock against the same memory; default: the card's.",
)
@click.option(
    "--also-clock",
    "also_clocks",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="MHZ",
    help="Measure at this clock too.",
)
@click.option(
    "--state",
    type=click.Choice(STATES),
    default="ingest",
    show_default=True,
    help="Ingest the prompt on the device, or load the reference's state after all but its last token.",
)
@click.option(
    "--refresh-seed",
    "seed",
    type=int,
    default=1,
    show_default=True,
    help="Refresh phases of the memories.",
)
@click.option(
    "--prompt-seed", type=click.IntRange(min=0), default=1, show_default=True, help="Random prompt ids."
)
@click.option(
    "--hbm-set",
    callback=hbm_settings,
    metavar="NAME=VALUE,...",
    help="Further parameters of the simulated memory, by their names in sim/harness/hbm.h.",
)
@click.option("--autonomous", is_flag=True, help="Measure the continuation in a single run, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--out", type=PATH, metavar="FILE", help="Write that object to a file.")
@threads_option
@cache_option
def bench(model: str, cache: Path | None, as_json: bool, out: Path | None, threads: int | None, **values):
    """Measure a model: its passes on the simulated card, or throughput and energy of requests in rounds.

    On the simulated card every pass is measured by itself and compared with the integer reference; PREFIX
    random prompt tokens, then NEW-TOKENS generated ones. A decode pass is one whose input token was
    generated.

    On a card (--device xrt:0), and with --rounds, --seconds, --idle-seconds, --verify or several prefixes:
    the measuring protocol of docs/measuring.md, with prefixes 32 128 256 480 and 128 new tokens unless told
    otherwise.
    """
    console = stderr()
    if out is not None:
        check_file(out)
    package = open_package(model)
    in_rounds = take_protocol(values)
    settings = BenchSettings(**_given(values))
    prefixes: Sequence[int]
    if in_rounds is None:
        prefixes, new_tokens = (settings.prefix,), settings.new_tokens
    else:
        prefixes, new_tokens = in_rounds.settings.prefixes, in_rounds.settings.new_tokens
    for prefix in prefixes:
        check_counts(Standing(package.shape), prefix, new_tokens)
    if in_rounds is not None:
        options = DeviceOptions(
            device=in_rounds.device,
            xclbin=in_rounds.xclbin,
            card=settings.card,
            build=settings.build,
            hbm=settings.hbm,
            refresh_seed=settings.seed,
            cache=cache,
            simulation=settings.simulation(settings.clocks()[0]) | {"threads": threads},
        )
        bench_in_rounds(package, options, in_rounds, out=out, as_json=as_json, console=console)
        return
    with ProgressView(console) as progress:
        result = bench_package(package, settings, cache, threads=threads, progress=progress)
    if as_json:  # first: what took minutes is shown even if the file cannot be written after all
        print_json(result)
    else:
        print_bench(stdout(), result, config.card(settings.card))
    if out is not None:
        write_json(out, result)
    if not result["bit_exact"]:
        raise VerificationError(result["difference"] or "at another clock the results differ")


def _given(values: dict) -> dict:
    """Settings of one benchmark: its one prefix, and the defaults of what was not said."""
    prefixes = values.pop("prefixes")
    if prefixes:
        values["prefix"] = prefixes[0]
    return {name: value for name, value in values.items() if value is not None}
