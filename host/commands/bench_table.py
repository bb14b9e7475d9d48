"""`symlight bench-table`: the standard table of `make bench`, one file per row, and the plot.

A row that was measured with the same kernel, package and settings is not measured again, so an interrupted
table goes on where it was.
"""

from dataclasses import replace
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import check_file

from ..bench.simulation import about, bench_package, reference_run
from ..bench.table import (
    FIRST_ROWS,
    MODEL,
    headline,
    is_current,
    read_results,
    read_row,
    row_name,
    rows,
    table_package,
    with_results,
)
from ..device.kernels import obtain_kernel
from ..device.verify import VerificationError
from ..terminal.console import ProgressView, stderr, stdout, waiting
from ..terminal.options import PATH, cache_option, threads_option
from ..terminal.results import write_json, write_text


@click.command("bench-table")
@click.option(
    "--model",
    default=MODEL,
    show_default=True,
    metavar="PACKAGE",
    help="Synthetic 194m, or the path of a package.",
)
@click.option(
    "--out",
    type=PATH,
    default="benchmarks/kernel",
    show_default=True,
    metavar="DIR",
    help="Folder of results.",
)
@click.option("--page", type=PATH, metavar="FILE", help="Write all rows into the table of this file, too.")
@click.option(
    "--readme", type=PATH, metavar="FILE", help="Write the first rows into the table of this file, too."
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
    page: Path | None,
    readme: Path | None,
    only: tuple[str, ...],
    card: str | None,
    force: bool,
    only_list: bool,
    threads: int | None,
    cache: Path | None,
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
    for document in filter(None, (readme, page)):  # hours before they are written
        with_results(document.read_text(encoding="utf-8"), [])
        check_file(document)
    references = {}
    bad = []
    for number, row in enumerate(wanted, 1):
        path = out / f"{row_name(row)}.json"
        with ProgressView(console) as progress:
            kernel = obtain_kernel(row.card, row.build, cache, progress)
            current = is_current(read_row(path), about(package, row, kernel)) and not force
            (stdout() if only_list else console).print(
                f"{number}/{len(wanted)} {row_name(row)}: {'current' if current else 'to be measured'}",
                highlight=False,
            )
            if current or only_list:
                continue
            key = (row.prefix, row.new_tokens, row.state, row.prompt_seed)
            if key not in references:
                references[key] = reference_run(package, row, cache, progress)
            result = bench_package(
                package, row, cache, expected=references[key], threads=threads, progress=progress
            )
        write_json(path, result)
        _say(stdout(), result)
        if not result["bit_exact"]:
            bad.append(row_name(row))
    if only_list:
        return
    _plot(stdout(), out)
    if page is not None:
        _write_table(page, read_results(out))
    if readme is not None:
        _write_table(readme, read_results(out, FIRST_ROWS), headline(out))
    if bad:
        raise VerificationError(
            f"these rows differ from the reference: {', '.join(bad)}; the files say where"
        )


def _write_table(document: Path, results: list[dict], lead: str = "") -> None:
    write_text(document, with_results(document.read_text(encoding="utf-8"), results, lead))


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
        from ..bench.plot import plot
    except ImportError:
        console.print("no plot: matplotlib is not installed (pip install 'symlight[plots]')", highlight=False)
        return
    for file in plot(out):
        console.print(str(file), highlight=False)
