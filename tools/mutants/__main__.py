"""`python -m symlight.tools.mutants`: mutate, test, and write the score; goes on where it was."""

import json
import random
import sys
from pathlib import Path

import click

from symlight.base.errors import UserError
from symlight.base.files import write_whole
from symlight.base.provenance import commit

from .modules import sampled
from .mutation import HARDWARE, HOST, Mutation, listed
from .score import Result, check_clean, run_mutations, score
from .tree import copied


def _chosen(kind: tuple[str, ...], count: int, seed: int, only: tuple[str, ...]) -> list[Mutation]:
    lists = (*(HARDWARE if "hardware" in kind else ()), *(HOST if "host" in kind else ()))
    found = [one for name in lists for one in listed(name)]
    if "modules" in kind:
        found += sampled(count, seed)
    return [one for one in found if not only or any(text in f"{one.file} {one.name}" for text in only)]


def _known(out: Path | None, source: str | None) -> list[Result]:
    """Results of an earlier run at the same commit."""
    if out is None or not out.exists():
        return []
    content = json.loads(out.read_text(encoding="utf-8"))
    if content.get("commit") != source:
        return []
    return [Result(**one | {"tests": tuple(one["tests"])}) for one in content["results"]]


@click.command()
@click.option(
    "--kind", multiple=True, type=click.Choice(["hardware", "host", "modules"]), help="Default: all."
)
@click.option("--only", multiple=True, metavar="TEXT", help="Mutations whose file or name holds this.")
@click.option(
    "--modules-sample",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    metavar="N",
    help="Mutations of every Python module that the library mutates.",
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="So many of all, drawn by --seed.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--list", "only_list", is_flag=True, help="Name the mutations and stop.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write results, and go on from.")
def main(kind, only, modules_sample: int, sample: int | None, seed: int, only_list: bool, out: Path | None):
    """Apply mutations to a copy of the repository, one at a time, and run the tests that must see them."""
    mutations = _chosen(kind or ("hardware", "host", "modules"), modules_sample, seed, only)
    if sample is not None:
        mutations = random.Random(seed).sample(mutations, min(sample, len(mutations)))
    if only_list:
        for one in mutations:
            click.echo(f"{one.file}: {one.name}")
        return

    def say(text: str) -> None:
        click.echo(text, err=True)

    source = commit()
    results = _known(out, source)
    done = {result.name for result in results}
    with copied() as tree:
        for tests in dict.fromkeys(one.tests for one in mutations):
            group = [one for one in mutations if one.tests == tests and one.name not in done]
            if not group:
                continue
            check_clean(tree, group[:1], say)
            for one in group:
                results += run_mutations(tree, [one], say)
                if out is not None:
                    content = {"commit": source, "seed": seed, **score(results)}
                    content["results"] = [result.to_json() for result in results]
                    write_whole(out, json.dumps(content, indent=1) + "\n")
    found = score(results)
    click.echo(f"{found['seen']} of {found['mutants']} mutations are seen; not seen: {found['not_seen']}")


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except (UserError, RuntimeError) as error:
        sys.exit(f"mutants: {error}")
