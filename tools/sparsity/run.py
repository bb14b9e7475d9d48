"""`python -m symlight.tools.sparsity.run`: the sweep, its table and its picture."""

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console

from symlight.base.errors import UserError
from symlight.model.config import preset
from symlight.model.training import corpus as corpora

from .measure import estimated, on_cpu, simulated
from .report import plot, table
from .sweep import LAMBDAS, Plan, Sweep

CARD, BUILD = "sim4", "partial-kv"


def main(arguments: list[str] | None = None) -> None:
    """Run what is left of the sweep and write sweep.json, sweep.md and sweep.png."""
    parser = argparse.ArgumentParser(prog="python -m symlight.tools.sparsity.run", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, help="text file; default: the World English Bible, downloaded")
    parser.add_argument("--shape", default="demo", help="preset")
    parser.add_argument("--start-steps", type=int, default=Plan.start_steps)
    parser.add_argument("--steps", type=int, default=Plan.steps, help="of each row")
    parser.add_argument("--batch", type=int, default=Plan.batch)
    parser.add_argument("--sequence", type=int, default=Plan.sequence)
    parser.add_argument("--lambdas", type=float, nargs="+", default=LAMBDAS)
    parser.add_argument("--heldout-tokens", type=int)
    parser.add_argument(
        "--simulate", action="store_true", help=f"measure cycles on the simulated {CARD}, too"
    )
    parser.add_argument("--threads", type=int, help="of torch")
    given = parser.parse_args(arguments)
    if given.threads:
        torch.set_num_threads(given.threads)
    plan = Plan(
        shape=preset(given.shape),
        lambdas=tuple(given.lambdas),
        start_steps=given.start_steps,
        steps=given.steps,
        batch=given.batch,
        sequence=given.sequence,
        heldout_tokens=given.heldout_tokens,
    )
    if 0 not in plan.lambdas:
        raise UserError("the sweep needs lambda 0, which the others are compared with")
    console = Console(stderr=True)
    sweep = Sweep(given.out, plan, corpora.load(given.corpus, given.out), console)
    rows = sweep.run()
    for row in rows:
        package = sweep.package(row)
        if "estimated_cycles" not in row.measured:
            sweep.set_measured(row, estimated(package, CARD, BUILD) | on_cpu(package))
        if given.simulate and "decode_cycles" not in row.measured:
            sweep.set_measured(row, simulated(package, CARD, BUILD, None, console))
    (given.out / "sweep.md").write_text(table(rows) + "\n", encoding="utf-8")
    plot(rows, given.out / "sweep.png")
    print(table(rows))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
