"""`python -m symlight.tools.evidence`: all evidence of a build, written as JSON and as a page."""

import json
from pathlib import Path

import click

from symlight.base import program
from symlight.base.files import write_whole
from symlight.base.provenance import commit

from .collect import lint_of, synthesis, verilog_of
from .page import page, read_results
from .place import SEED, place_all
from .power import with_table

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("lint", "synthesis", "place")


def _write(path: Path, data: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(data, indent=1) + "\n")


@click.command()
@click.option("--card", default="u50c", show_default=True, help="Card preset.")
@click.option("--build", default="partial-kv", show_default=True, help="Build.")
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="Parts of the evidence; default all.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=ROOT / "docs" / "evidence",
    help="Folder of the results.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "evidence",
    help="Folder of what is kept by content.",
)
def main(card: str, build: str, only: tuple, out: Path, cache: Path) -> None:
    """Lint, depth of logic and resources, place and route: what can be shown without the vendor's tools."""

    def say(text: str) -> None:
        click.echo(text, err=True)

    about = {"card": card, "build": build, "commit": commit("hw", "model", "bitstreams") or "unknown"}
    wanted = only or PARTS
    files = verilog_of(card, build, cache, say) if {"lint", "synthesis"} & set(wanted) else []
    if "lint" in wanted:
        _write(out / "lint.json", about | lint_of(files, say))
    if "synthesis" in wanted:
        _write(out / "synthesis.json", about | synthesis(files, cache, say))
    if "place" in wanted:
        _write(out / "place.json", about | {"seed": SEED, "modules": place_all(card, cache, say)})
    write_whole(out / "README.md", page(read_results(out)))
    if out == ROOT / "docs" / "evidence":
        document = out / "power.md"
        write_whole(document, with_table(document.read_text(), out))
    say(f"written: {out}")


if __name__ == "__main__":
    program.main(main, "evidence")
