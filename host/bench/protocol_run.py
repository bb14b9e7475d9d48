"""`symlight bench` on a card, or in rounds: the protocol of `host.bench.protocol` on a device that is
opened here,
its results on disk."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
from rich.console import Console

import symlight
from symlight.base.files import check_file
from symlight.base.provenance import commit
from symlight.model.package import Package

from ..device.golden import golden_machine
from ..device.machine import Machine, Progress, silent
from ..device.opening import DeviceOptions, OpenedDevice
from ..terminal.console import ProgressView, stdout
from ..terminal.options import PATH, FiniteRange, refuse_given
from ..terminal.results import print_json, write_json, write_text
from .protocol import IDLE_DROPPED, Campaign, ProtocolSettings, Record
from .protocol_report import print_protocol, protocol_json, samples_csv
from .sensors import sensor_of
from .telemetry import Sampler

NO_PLOT = "no plot is drawn: matplotlib is not installed (the extra `plots`)"


def prompts(package: Package, settings: ProtocolSettings) -> dict[int, list[int]]:
    """Random token ids of every prefix, the same for every device."""
    return {
        prefix: np.random.default_rng(settings.prompt_seed).integers(0, package.shape.vocab, prefix).tolist()
        for prefix in settings.prefixes
    }


def reference_tokens(
    package: Package, golden: Machine, settings: ProtocolSettings, progress: Progress = silent
) -> dict[int, list[int]]:
    """What every prefix must be followed by; `golden` works it out (host.device.golden)."""
    found: dict[int, list[int]] = {}
    for i, (prefix, prompt) in enumerate(prompts(package, settings).items()):
        progress("reference", i, len(settings.prefixes))
        golden.reset()
        found[prefix] = golden.run(prompt, settings.new_tokens, None).tokens
    progress("reference", len(found), len(found))
    return found


class Results:
    """The files of a campaign: FILE.json, FILE.csv with every sample, FILE.png. Without a path nothing is
    kept.

    Attributes
    ----------
    failure : OSError | None
        Why the newest files could not be written: what takes minutes to measure is shown first.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self.failure: OSError | None = None

    def write(self, record: Record, facts: dict) -> dict:
        """The result so far; also on disk, so that whatever interrupts the next round costs that round
        only."""
        result = protocol_json(record, facts)
        self.failure = None
        if self.path is not None:
            try:
                write_json(self.path, result)
                if record.series.samples:
                    write_text(self.path.with_suffix(".csv"), samples_csv(record))
            except OSError as error:
                self.failure = error
        return result

    def plot(self, record: Record, result: dict, console: Console) -> None:
        if self.path is None or record.sensor is None:
            return
        if importlib.util.find_spec("matplotlib") is None:
            console.print(NO_PLOT, highlight=False)
            return
        from .protocol_plot import plot

        try:
            plot(record, result, self.path.with_suffix(".png"))
        except OSError as error:
            self.failure = self.failure or error


def run_protocol(
    package: Package,
    options: DeviceOptions,
    settings: ProtocolSettings,
    results: Results,
    *,
    verify: bool = False,
    console: Console,
) -> dict:
    """Open the device, run the protocol, write and return what it says."""
    with ProgressView(console) as progress:
        expected, golden = None, None
        if verify:
            golden = golden_machine(package, options, progress)
            expected = reference_tokens(package, golden, settings, progress)
            golden.close()
        with OpenedDevice(options, package, progress) as machine:
            sensor, about_sensor = sensor_of(machine)
            timing = "kernel" if options.device == "sim" else "host"
            facts = _facts(package, options, machine, golden)
            campaign = Campaign(
                machine,
                settings,
                prompts(package, settings),
                None if sensor is None else Sampler(sensor),
                about_sensor,
                timing=timing,
                expected=expected,
                progress=progress,
            )
            result: dict = {}

            def on_round(record: Record) -> None:
                result.clear()
                result.update(results.write(record, facts))

            record = campaign.run(on_round)
    results.plot(record, result, console)
    return result


def _facts(package: Package, options: DeviceOptions, machine, golden: Machine | None) -> dict:
    """What the result says about device and model; no figure without it can be repeated."""
    card = getattr(machine, "card", None)
    return {
        "device": options.device,
        "about_device": None
        if card is None
        else {name: card.info(name) for name in ("name", "bdf", "max_clock_frequency_mhz")},
        "build_id": None if card is None else f"{machine.build_id:032x}",
        "model": package.meta.name,
        "synthetic": package.meta.synthetic,
        "package": package.digest,
        "verified": golden is not None,
        "compared_with": None if golden is None else golden.name,
        "commit": commit(),
        "version": symlight.__version__,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def default_path(device: str) -> Path | None:
    """Where a measurement on a card goes unless the user says otherwise: nothing that took an hour is only
    printed."""
    if device == "sim":
        return None
    return Path(f"energy-{device.replace(':', '_').replace('/', '_')}-{datetime.now(UTC):%Y%m%d-%H%M%S}.json")


# ---- as a part of the command `bench` ----


@dataclass(frozen=True, kw_only=True)
class InRounds:
    """What the command line says about a measurement in rounds."""

    device: str
    xclbin: Path | None
    verify: bool
    settings: ProtocolSettings


_OPTIONS = [
    click.option(
        "--device",
        default="sim",
        show_default=True,
        metavar="sim|cpu[:THREADS]|xrt:N",
        help="Simulated card, this processor, or a card.",
    ),
    click.option(
        "--xclbin", type=PATH, metavar="FILE", help="Bitstream of a card; its manifest.json is beside it."
    ),
    click.option(
        "--rounds",
        type=click.IntRange(min=1),
        metavar="R",
        help=f"Rounds.  [default: {ProtocolSettings.rounds}]",
    ),
    click.option(
        "--seconds",
        type=FiniteRange(min=0, min_open=True),
        metavar="S",
        help=f"Least length of a window of requests.  [default: {ProtocolSettings.seconds:g}]",
    ),
    click.option(
        "--idle-seconds",
        type=FiniteRange(min=IDLE_DROPPED, min_open=True),
        metavar="S",
        help=f"Length of an idle window, the first {IDLE_DROPPED:g} s of which are dropped.  "
        f"[default: {ProtocolSettings.idle_seconds:g}]",
    ),
    click.option(
        "--verify",
        is_flag=True,
        help="In rounds: compare the tokens with the integer reference, not only with each other.",
    ),
]


def protocol_options(command: Callable) -> Callable:
    """Add the options of a measurement in rounds to a command; it has `prefixes`, `new_tokens` and
    `prompt_seed` already."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


# parameters of `bench` that say how the simulated card is made
_SIMULATION = ("card", "build", "hbm", "max_bursts", "max_bytes", "clock", "seed", "threads")


def take_protocol(values: dict) -> InRounds | None:
    """Take what `protocol_options` added out of a command's values; None when a measurement in rounds was not
    asked for."""
    device, xclbin, verify = (values.pop(name) for name in ("device", "xclbin", "verify"))
    given = {name: values.pop(name) for name in ("rounds", "seconds", "idle_seconds")}
    given = {name: value for name, value in given.items() if value is not None}
    if device == "sim":
        refuse_given(["xclbin"], "on the simulated card")
    if device == "sim" and not given and not verify and len(values["prefixes"]) <= 1:
        return None
    refuse_given(["state", "autonomous", "also_clocks"], "in a measurement in rounds")
    if device != "sim":
        refuse_given(_SIMULATION, f"on {device}: it is for the simulated card")
    for name in ("prefixes", "new_tokens", "prompt_seed"):
        if values[name] not in (None, ()):
            given[name] = values[name]
    return InRounds(device=device, xclbin=xclbin, verify=verify, settings=ProtocolSettings(**given))


def bench_in_rounds(
    package: Package,
    options: DeviceOptions,
    asked: InRounds,
    *,
    out: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """The command's part of a measurement in rounds."""
    results = Results(out or default_path(options.device))
    if results.path is not None:
        check_file(results.path)
    result = run_protocol(package, options, asked.settings, results, verify=asked.verify, console=console)
    if as_json:
        print_json(result)
    else:
        print_protocol(stdout(), result)
        if results.path is not None and results.failure is None:
            console.print(f"written to {results.path}", highlight=False)
    if results.failure is not None:
        raise results.failure
