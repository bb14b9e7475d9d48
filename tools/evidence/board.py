"""`python -m symlight.tools.evidence.board`: clocks of the open board's bitstream over several seeds.

The netlist is made once (or taken from a build with --work); each seed places and routes it again. Results
are written after every seed, and those of the same netlist, tools and options are kept.
"""

import hashlib
import json
from pathlib import Path

import click

from symlight.base import program
from symlight.base.files import write_whole
from symlight.base.json_file import read_object
from symlight.base.provenance import commit
from symlight.bitstreams.board.build import NAME, synthesise
from symlight.bitstreams.board.route import EFFORT, place_and_route
from symlight.bitstreams.board.tools import require_tools, versions
from symlight.hw.board.board import board
from symlight.hw.board.generate import generate_board

ROOT = Path(__file__).resolve().parents[2]


def margins(seeds: dict[str, dict]) -> dict[str, float]:
    """Least share by which each clock exceeds what it must reach, over all seeds; negative: it does not."""
    least: dict[str, float] = {}
    for result in seeds.values():
        for name, clock in result["clocks"].items():
            share = clock["mhz"] / clock["wanted_mhz"] - 1
            least[name] = min(least.get(name, share), share)
    return {name: round(share, 4) for name, share in sorted(least.items())}


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@click.command()
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Seeds 1 to this.")
@click.option(
    "--work",
    type=click.Path(path_type=Path),
    default=ROOT / "build" / "board-seeds",
    help="Folder of the tools' files; a netlist in it is not made again.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=ROOT / "docs" / "evidence" / "board.json",
    help="File of the results.",
)
def main(seeds: int, work: Path, out: Path) -> None:
    """Place and route the ULX3S design with several seeds."""
    require_tools()
    target = board("ulx3s-85f")

    def say(stage: str, done: int, _total: int) -> None:
        if not done:
            click.echo(f"{stage} ...", err=True)

    if not (work / f"{NAME}.json").is_file():
        synthesise(target, work, say)
    about = {
        "board": target.name,
        "build_id": f"{generate_board(target)[1]:032x}",
        "commit": commit("hw", "model", "bitstreams") or "unknown",
        "netlist": _digest(work / f"{NAME}.json"),
        "options": list(EFFORT),
        "tools": versions(),
    }
    old = read_object(out, "make it again") if out.is_file() else {}
    kept = (
        old.get("seeds", {})
        if all(old.get(name) == about[name] for name in about if name != "commit")
        else {}
    )
    for seed in map(str, range(1, seeds + 1)):
        if seed not in kept:
            click.echo(f"seed {seed}", err=True)
            result = place_and_route(NAME, work, int(seed), say)
            kept[seed] = result | {"config": _digest(work / f"{NAME}.config")}
            write_whole(
                out, json.dumps(about | {"least_margin": margins(kept), "seeds": kept}, indent=1) + "\n"
            )
    for seed, result in kept.items():
        click.echo(f"seed {seed}: " + ", ".join(f"{n} {c['mhz']} MHz" for n, c in result["clocks"].items()))


if __name__ == "__main__":
    program.main(main, "evidence")
