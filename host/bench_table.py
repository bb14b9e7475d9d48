"""`symlight bench-table`: the standard table of `make bench`, a file a row under benchmarks/, and the plot.

A row that was measured with the same kernel, package and settings is not measured again, so an interrupted
table goes on where it was.
"""

import json
from dataclasses import replace
from pathlib import Path

import click

from symlight.hw.config import BUILDS
from symlight.model.config import preset
from symlight.model.errors import UserError
from symlight.model.package import Package, PackageMeta, save_package
from symlight.sim.cache import cached

from .bench import BenchSettings, about, bench_package, reference_run
from .console import ProgressView, stderr, waiting
from .kernels import obtain_kernel
from .models import open_package
from .options import PATH, cache_option, threads_option
from .results import write_json, write_text
from .verify import VerificationError

MODEL, SEED, DENSITY = "194m", 1, 0.24  # the synthetic package of the table
SHORT = BenchSettings(prefix=32, new_tokens=8)
FULL = BenchSettings(prefix=480, new_tokens=4, state="load")
BEGIN, END = (
    "<!-- benchmarks: written by make bench -->",
    "<!-- end of benchmarks -->",
)  # around a document's results
LEAN = {"max_bursts": 32, "max_bytes": 2048, "state": "load"}  # what a stingier shell may grant


def rows() -> list[BenchSettings]:
    """The standard table, the rows of the paper's comparison first."""
    builds = ("partial-kv", *(name for name in BUILDS if name != "partial-kv"))
    table = [replace(SHORT, build=build, autonomous=build == "partial-kv") for build in builds]
    table += [replace(FULL, build=build) for build in builds]
    table += [replace(SHORT, build="partial-kv", clock=300), replace(FULL, build="partial-kv", clock=300)]
    return table + [replace(row, build=build, **LEAN) for row in (SHORT, FULL) for build in builds]


def row_name(settings: BenchSettings) -> str:
    """File name of a row, without its suffix."""
    return (
        f"{settings.card}-{settings.build}-p{settings.prefix}n{settings.new_tokens}-"
        f"{settings.hbm}{settings.max_bursts}x{settings.max_bytes}-{settings.clocks()[0]}mhz"
    )


def read_row(path: Path) -> dict | None:
    """A result that was written before; None when there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not the result of a benchmark ({error}); remove it") from error


def is_current(result: dict | None, facts: dict) -> bool:
    """A result of the same kernel, package and settings, and a good one."""
    # Lists and tuples are one in JSON.
    return (
        bool(result)
        and result["bit_exact"]
        and all(result.get(k) == v for k, v in json.loads(json.dumps(facts)).items())
    )


def table_package(cache: Path, model: str) -> Package:
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

    return open_package(str(cached(cache / "packages", f"{MODEL}-{SEED}-{DENSITY}", make) / MODEL))


@click.command("bench-table")
@click.option(
    "--model",
    default=MODEL,
    show_default=True,
    metavar="PACKAGE",
    help="Synthetic 194m, or the path of a package.",
)
@click.option(
    "--out", type=PATH, default="benchmarks", show_default=True, metavar="DIR", help="Folder of results."
)
@click.option(
    "--readme", type=PATH, metavar="FILE", help="Write the results into the table of this file, too."
)
@click.option(
    "--only",
    multiple=True,
    metavar="TEXT",
    help="Only rows whose name holds this text; several: any of them.",
)
@click.option("--card", metavar="CARD", help="Another card than u50c.")
@click.option("--force", is_flag=True, help="Measure current rows again.")
@click.option("--list", "only_list", is_flag=True, help="Say which rows are to be measured, and end.")
@threads_option
@cache_option
def bench_table(
    model: str,
    out: Path,
    readme: Path | None,
    only: tuple[str, ...],
    card: str | None,
    force: bool,
    only_list: bool,
    threads: int | None,
    cache: Path,
):
    """Measure the standard table: builds, prefixes, memory limits and clocks."""
    console = stderr()
    with waiting(console, f"package {model}"):
        package = table_package(cache, model)
    wanted = [replace(row, card=card) if card else row for row in rows()]
    wanted = [row for row in wanted if not only or any(text in row_name(row) for text in only)]
    if not wanted:
        raise UserError(f"no row's name holds {' or '.join(only)}; --list names them")
    out.mkdir(parents=True, exist_ok=True)
    references = {}
    bad = []
    for number, row in enumerate(wanted, 1):
        path = out / f"{row_name(row)}.json"
        with ProgressView(console) as progress:
            kernel = obtain_kernel(row.card, row.build, cache, progress)
            current = is_current(read_row(path), about(package, row, kernel)) and not force
            console.print(
                f"{number}/{len(wanted)} {row_name(row)}: {'current' if current else 'to be measured'}",
                highlight=False,
            )
            if current or only_list:
                continue
            key = (row.prefix, row.new_tokens, row.state, row.prompt_seed)
            if key not in references:
                references[key] = reference_run(package, row, progress)
            result = bench_package(
                package, row, cache, expected=references[key], threads=threads, progress=progress
            )
        write_json(path, result)
        _say(console, result)
        if not result["bit_exact"]:
            bad.append(row_name(row))
    if only_list:
        return
    _plot(console, out)
    if readme is not None:
        write_text(readme, with_results(readme.read_text(encoding="utf-8"), read_results(out)))
    if bad:
        raise VerificationError(
            f"these rows differ from the reference: {', '.join(bad)}; the files say where"
        )


def _say(console, result: dict) -> None:
    decode, prompt = result["decode_cycles"], result["prompt_cycles"]
    exact = "bit-exact" if result["bit_exact"] else f"NOT bit-exact: {result['difference']}"
    if decode is None or prompt is None:
        console.print(exact, highlight=False)
        return
    console.print(
        f"  decode {decode['median']:,.0f} cycles, prompt {prompt['median']:,.0f}, "
        f"utilisation {result['port_utilisation']:.3f}, "
        f"{result['simulation_cycles_per_second']:,} cycles/s, {exact}",
        highlight=False,
    )


def _plot(console, out: Path) -> None:
    """The plot needs the extra `plots`; the results do not."""
    try:
        from .bench_plot import plot
    except ImportError:
        console.print("no plot: matplotlib is not installed (pip install 'symlight[plots]')", highlight=False)
        return
    for file in plot(out):
        console.print(str(file), highlight=False)


def results_table(results: list[dict]) -> str:
    """The README's table, in Markdown, of the standard rows; the paper's figures beside ours."""
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
            f"| {one['build']} | p{one['prefix']} "
            f"| {one['clock']} MHz, {one['max_bursts']} x {one['max_bytes'] // 1024} KB | "
            f"{one['decode_cycles']['median']:,.0f} | {device}, {host} | "
            f"{one['prompt_cycles']['median']:,.0f} | {one['port_utilisation']:.3f} | {rate:,.0f} |"
        )
    return "\n".join(lines) + "\n"


def with_results(text: str, results: list[dict]) -> str:
    """`text` of a document with the results between its two marks."""
    before, first, rest = text.partition(BEGIN)
    _, second, after = rest.partition(END)
    if not first or not second:
        raise UserError(f"the document has no lines {BEGIN} and {END} for the results")
    return f"{before}{BEGIN}\n\n{results_table(results)}\n{END}{after}"


def read_results(folder: Path) -> list[dict]:
    """The standard rows that have been measured, in the table's order."""
    found = (read_row(folder / f"{row_name(row)}.json") for row in rows())
    return [one for one in found if one is not None]
