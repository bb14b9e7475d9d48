"""`symlight eval` and `symlight profile` of V1 packages: quality on a text, and what it costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.table import Table

from symlight.cpu.v1.engine import EngineV1
from symlight.cpu.v1.measure import EvaluationV1, ProfileV1, evaluate, profile
from symlight.model.v1.package import V1Package

from ..device.machine import Progress
from ..device.opening import DeviceOptions, OpenedDevice
from ..terminal.console import ProgressView, stderr
from ..terminal.plain import PlainConsole
from ..terminal.results import print_json
from ..terminal.turn_report import print_table
from .machine import V1Machine


@contextmanager
def v1_engine(package: V1Package, device: str, cache: Path, progress: Progress) -> Iterator[EngineV1]:
    """The engine behind `device`; a `UserError` for a device that cannot run V1."""
    with OpenedDevice(DeviceOptions(device=device, cache=cache), package, progress) as machine:
        opened: object = machine
        assert isinstance(opened, V1Machine), "a package of V1 is run by no other machine"
        yield opened.engine


def eval_v1(
    package: V1Package, text: str, device: str, cache: Path, sequence: int, as_json: bool
) -> EvaluationV1:
    """Evaluate a text, print what came of it."""
    tokens = package.encode(text)
    with ProgressView(stderr()) as progress, v1_engine(package, device, cache, progress) as engine:
        found = evaluate(
            engine,
            tokens,
            sequence,
            len(text.encode()),
            lambda done, total: progress("evaluate", done, total),
        )
    if as_json:
        print_json({"package": str(package.path), "sequence": sequence} | found.to_json())
        return found
    table = Table("", "value", title=f"{package.meta.name}: pieces of {sequence} tokens, each from the start")
    for name, value in found.to_json().items():
        shown = "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        table.add_row(name.replace("_", " "), shown)
    print_table(PlainConsole(), table, 1)
    return found


def profile_v1(
    package: V1Package, prompt: list[int], device: str, cache: Path, new_tokens: int, as_json: bool
) -> ProfileV1:
    """Decode a prompt and what follows it token by token; print spikes, work and time of a position."""
    with ProgressView(stderr()) as progress, v1_engine(package, device, cache, progress) as engine:
        session, tokens = engine.session(), list(prompt)
        engine.run(session, tokens[:1], wanted=1)  # the first pass warms up
        engine.clear()
        total = len(prompt) + new_tokens
        for position in range(1, total):
            logits = engine.run(session, tokens[position : position + 1], wanted=1, rows=package.pieces)
            if position + 1 >= len(tokens):
                tokens.append(int(logits[-1].argmax()))
            progress("profile", position + 1, total)
        found = profile(engine)
    if as_json:
        print_json({"package": str(package.path), "device": device} | found.to_json())
    else:
        _print_profile(found)
    return found


def _print_profile(found: ProfileV1) -> None:
    console = PlainConsole()
    table = Table("layer", "tcam", "down", title="density: share of spikes")
    for layer, row in enumerate(found.densities):
        table.add_row(str(layer), f"{row['tcam']:.4f}", f"{row['down']:.4f}")
    print_table(console, table, 0)
    table = Table("matrix", "work done", "bytes a position", title="weights")
    for name, row in found.matrices.items():
        table.add_row(name, f"{row['share']:.1%}", f"{row['bytes']:,.0f}")
    share = found.multiply_accumulates / found.dense_multiply_accumulates
    table.add_row("all", f"{share:.1%}", f"{sum(row['bytes'] for row in found.matrices.values()):,.0f}")
    print_table(console, table, 1)
    table = Table("phase", "µs a position", "GB/s", title=f"time of {found.positions} positions, one by one")
    for name, times in found.phases.items():
        speed = times["bytes_per_second"]
        table.add_row(name, f"{times['microseconds']:,.1f}", "" if speed is None else f"{speed / 1e9:.2f}")
    print_table(console, table, 1)


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
