"""Twenty prompts continued, greedily and sampled, for docs/demo-model.md.

`python -m symlight.model.training.prompts --package FOLDER` prints them as Markdown.

Two figures describe how repetitive the texts are. distinct-n is the number of different n-grams of tokens
over the number of all of them, over all texts together. The repeated share is the share of 4-grams that came
before in the same text.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from symlight.base.errors import UserError

from ..package import Package, load_package
from ..reference import Reference
from ..sampling import GREEDY, SamplerSettings, SamplingOptions

PROMPTS = (
    "In the beginning",
    "And God said",
    "The king of Israel",
    "Moses said to the people",
    "Jesus answered them",
    "He went up to Jerusalem",
    "Yahweh spoke to Moses, saying,",
    "Behold, the days come",
    "The sons of David",
    "Blessed is the man",
    "Don't be afraid",
    "In the day of trouble",
    "The wise man",
    "My soul waits for",
    "They came to the river",
    "The priest shall burn",
    "Peter and John",
    "Now there was a man",
    "Grace to you and peace",
    "The gold and the silver",
)
NEW_TOKENS = 48
SAMPLED = SamplingOptions(temperature=0.8, top_p=0.95, min_p=0.05, seed=1)
SEEDS = 5  # of the figures


def grams(tokens: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """All n-grams in order."""
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def distinct(texts: Sequence[Sequence[int]], n: int) -> float:
    """Different n-grams over all n-grams, of all texts together; 0 without any."""
    found = [gram for text in texts for gram in grams(text, n)]
    return len(set(found)) / len(found) if found else 0.0


def repeated(texts: Sequence[Sequence[int]], n: int = 4) -> float:
    """Share of n-grams that came before in their own text; 0 without any."""
    found = [grams(text, n) for text in texts]
    total = sum(map(len, found))
    return 1 - sum(len(set(text)) for text in found) / total if total else 0.0


def continuation(
    reference: Reference, package: Package, prompt: str, options: SamplingOptions, count: int = NEW_TOKENS
) -> list[int]:
    """Tokens of the integer reference after the prompt, in a new session."""
    reference.reset()
    settings = None if options.greedy else SamplerSettings.of(options, package.meta.logit_scale)
    tokens = package.encode(prompt)
    return reference.generate(tokens, count, package.meta.eos, settings=settings).tokens


def prompt_line(package: Package, prompt: str, tokens: Sequence[int]) -> str:
    """A list item, the prompt in bold; a line end in the text is shown as a slash."""
    eos, given = package.meta.eos, package.encode(prompt)
    new = [token for token in tokens if token != eos]
    whole, start = (package.tokenizer.decode(ids) for ids in (given + new, given))
    shown = whole[len(start) :].rstrip("\n").replace("\n", " / ").replace("*", "\\*")
    return f"- **{prompt}**{shown}" + (" *(end)*" if eos in tokens else "")


def figures(texts: Sequence[Sequence[int]]) -> str:
    """Cells of a row of the table."""
    return " | ".join([*(f"{distinct(texts, n):.3f}" for n in (1, 2, 3, 4)), f"{repeated(texts):.1%}"])


def lines(package: Package) -> Iterator[str]:
    """The table, then both lists."""
    reference = Reference(package.model)
    greedy = [continuation(reference, package, prompt, GREEDY) for prompt in PROMPTS]
    sampled = {
        seed: [continuation(reference, package, prompt, SAMPLED.with_seed(seed)) for prompt in PROMPTS]
        for seed in range(1, SEEDS + 1)
    }
    yield "| texts | distinct-1 | distinct-2 | distinct-3 | distinct-4 | repeated 4-grams |"
    yield "|---" * 6 + "|"
    yield f"| greedy | {figures(greedy)} |"
    for seed, texts in sampled.items():
        yield f"| sampled, seed {seed} | {figures(texts)} |"
    for name, texts in (("Greedy", greedy), (f"Sampled, seed {SAMPLED.seed}", sampled[SAMPLED.seed])):
        yield from ("", f"### {name}", "")
        yield from (prompt_line(package, prompt, text) for prompt, text in zip(PROMPTS, texts, strict=True))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m symlight.model.training.prompts", description=__doc__)
    parser.add_argument("--package", type=Path, required=True, help="folder of the integer model")
    print("\n".join(lines(load_package(parser.parse_args(arguments).package))))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
