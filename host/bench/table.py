"""The standard table of `make bench`: its rows, the files of their results, and the table in a document."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from symlight.base.cache import cached, room
from symlight.base.errors import UserError
from symlight.hw.config import BUILDS, card
from symlight.model.config import preset
from symlight.model.package import Package, PackageMeta, save_package

from ..device.packages import open_package
from .simulation import BenchSettings

FIRST_ROWS = 5  # that the project's README shows: every build after a short prompt, one at a full ring
MODEL, SEED, DENSITY = "194m", 1, 0.24  # the synthetic package of the table
PACKAGES = "packages"  # room of the cache
SHORT = BenchSettings(prefix=32, new_tokens=8)
FULL = BenchSettings(prefix=480, new_tokens=4, state="load")
BEGIN, END = (
    "<!-- benchmarks: written by make bench -->",
    "<!-- end of benchmarks -->",
)  # around a document's results
_Fields = dict[str, Any]  # some of `BenchSettings`
LEAN: _Fields = {"max_bursts": 32, "max_bytes": 2048, "state": "load"}  # what a stingier shell may grant
# What a card's memory may be at less than its best: half of the latency before the DRAM, a return buffer of
# 48 beats, refreshes at twice the rate (as above 85 degrees); and at worst, half of the bytes in flight with
# those refreshes.
OFTEN_REFRESHED = ("trefi", 1755)
PESSIMISTIC: _Fields = {"hbm_set": (("request", 85), ("buffer", 48), OFTEN_REFRESHED)}
WORST: _Fields = {"max_bytes": 2048, "hbm_set": (OFTEN_REFRESHED,)}
SMALLER_CARDS = ("u50c16", "u50c28")  # the first steps of a power-up (docs/packaging.md)
MEMORIES = {"pessimistic": PESSIMISTIC, "worst": WORST}
HEADLINE = replace(SHORT, build="partial-kv", autonomous=True)


def rows() -> list[BenchSettings]:
    """The standard table, the rows of the paper's comparison first."""
    builds = ("partial-kv", *(name for name in BUILDS if name != "partial-kv"))
    table = [replace(SHORT, build=build, autonomous=build == "partial-kv") for build in builds]
    table += [replace(FULL, build=build) for build in builds]
    table += [replace(SHORT, build="partial-kv", clock=300), replace(FULL, build="partial-kv", clock=300)]
    table += [replace(row, build=build, **LEAN) for row in (SHORT, FULL) for build in builds]
    table += [
        replace(row, build="partial-kv", **memory) for memory in MEMORIES.values() for row in (SHORT, FULL)
    ]
    return table + [replace(SHORT, card=card, build="partial-kv") for card in SMALLER_CARDS]


def row_name(settings: BenchSettings) -> str:
    """File name of a row, without its suffix."""
    return (
        f"{settings.card}-{settings.build}-p{settings.prefix}n{settings.new_tokens}-"
        f"{settings.hbm}{settings.max_bursts}x{settings.max_bytes}-{settings.clocks()[0]}mhz"
        + "".join(f"-{name}{value}" for name, value in settings.hbm_set)
    )


def read_row(path: Path) -> dict | None:
    """A result that was written before; None when there is none."""
    try:
        row: dict = json.loads(path.read_text(encoding="utf-8"))
        return row
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path} is not the result of a benchmark ({error}); remove it") from error


def is_current(result: dict | None, facts: dict) -> bool:
    """A result of the same kernel, package and settings, and a good one."""
    # Lists and tuples are one in JSON.
    return bool(
        result
        and result["bit_exact"]
        and all(result.get(k) == v for k, v in json.loads(json.dumps(facts)).items())
    )


def table_package(cache: Path | None, model: str) -> Package:
    """The synthetic package of the table: made once, kept in the cache; or the package of that path."""
    if model != MODEL:
        return open_package(model)

    def make(folder: Path) -> None:
        from symlight.model.synthetic import synthesize

        provenance = {"preset": MODEL, "seed": SEED, "density": DENSITY}
        meta = PackageMeta(
            name=MODEL, description=f"random weights, shape {MODEL}", synthetic=True, provenance=provenance
        )
        save_package(folder / MODEL, synthesize(preset(MODEL), SEED, DENSITY), meta)

    return open_package(str(cached(room(cache, PACKAGES), f"{MODEL}-{SEED}-{DENSITY}", make) / MODEL))


def results_table(results: list[dict]) -> str:
    """A table, in Markdown, of results; the paper's figures beside ours."""
    lines = [
        "| build | prefix | clock, in flight | decode pass, cycles | paper: device, host-observed "
        "| prompt pass | port utilisation | passes/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        if not one["bit_exact"]:
            lines.append(f"| {one['build']} | p{one['prefix']} | not bit-exact: no figures | | | | | |")
            continue
        rate = one["passes_per_second"].get(str(one["clock"]))
        beside = one["paper"]["device_cycles"], one["paper"]["host_observed_cycles"]
        device, host = (f"{value:,}" if value else "-" for value in beside)
        lines.append(
            f"| {one['build']}{_ports(one)} | p{one['prefix']} "
            f"| {one['clock']} MHz, {one['max_bursts']} x {one['max_bytes'] // 1024} KB{_memory(one)} | "
            f"{one['decode_cycles']['median']:,.0f} | {device}, {host} | "
            f"{one['prompt_cycles']['median']:,.0f} | {one['port_utilisation']:.3f} | {rate:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def _ports(result: dict) -> str:
    """The number of ports, where it is not that of the table."""
    return "" if result["card"] == SHORT.card else f", {card(result['card']).channels} ports"


def _settings(result: dict) -> dict[str, int]:
    return {name: value for name, value in result.get("hbm_set", ())}


def _memory(result: dict) -> str:
    """Parameters of the memory that are not the usual ones."""
    return "".join(f", {name} {value}" for name, value in _settings(result).items())


def headline(folder: Path) -> str:
    """The first row of the table with the range that the assumptions of the memory leave, one sentence; empty
    unless all its rows have been measured."""
    found = {}
    for name, memory in {"": {}, **MEMORIES}.items():
        row = replace(HEADLINE, **memory)
        result = read_row(folder / f"{row_name(row)}.json")
        if result is None or not result["bit_exact"]:
            return ""
        found[name] = result["decode_cycles"]["median"]
    clock = HEADLINE.clocks()[0]
    rate = {name: clock * 1e6 / cycles for name, cycles in found.items()}
    others = ", ".join(
        f"{found[name]:,.0f} ({rate[name]:,.0f} passes/s) with the {name} memory" for name in MEMORIES
    )
    return (
        f"**{found['']:,.0f} cycles a decode pass, {rate['']:,.0f} passes/s at {clock} MHz** "
        f"({HEADLINE.build}, p{HEADLINE.prefix}); {others}. What the card's memory really does is for the "
        "[probe](docs/probe.md) to say."
    )


def with_results(text: str, results: list[dict], lead: str = "") -> str:
    """`text` of a document with the results between its two marks, behind the sentence `lead`."""
    before, first, rest = text.partition(BEGIN)
    _, second, after = rest.partition(END)
    if not first or not second:
        raise UserError(f"the document has no lines {BEGIN} and {END} for the results")
    lead = f"{lead}\n\n" if lead else ""
    return f"{before}{BEGIN}\n\n{lead}{results_table(results)}\n{END}{after}"


def read_results(folder: Path, first: int | None = None) -> list[dict]:
    """The standard rows that have been measured, in the table's order; of the `first` rows only."""
    found = (read_row(folder / f"{row_name(row)}.json") for row in rows()[:first])
    return [one for one in found if one is not None]
