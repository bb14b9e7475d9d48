"""The quality tables of docs/demo-model.md, as Markdown: `python -m symlight.model.training.quality_report`.

The integer model is measured on its own; the float model needs a checkpoint, and PyTorch.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present

from ..evaluate import Evaluation, evaluate, pieces, weighted_density
from ..package import Package, load_package
from ..reference import SITES
from . import corpus as corpora


def heldout_tokens(package: Package, text: corpora.Corpus) -> np.ndarray:
    """Token ids of all documents in a row, each ended by the end-of-sequence token, as in training."""
    eos = package.meta.eos
    if eos is None:
        raise UserError(f"package {package.path} has no end-of-sequence token to end a document with")
    return np.array(
        [token for document in text for token in [*package.encode("\n".join(document)), eos]], np.int64
    )


def float_logits(checkpoint: Path) -> Callable[[np.ndarray], np.ndarray]:
    """A float model as a function: tokens [T] -> logits [T, V] in nats, from a new session."""
    try:
        import torch

        from .float_model import load
    except ImportError as error:
        raise UserError(f"this needs PyTorch ({error}); run: pip install 'symlight[train]'") from error
    model = load(checkpoint)

    def logits(tokens: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(torch.from_numpy(tokens[None])).squeeze(0).double().numpy()

    return logits


def float_quality(checkpoint: Path, tokens: np.ndarray) -> tuple[float, np.ndarray]:
    """(nats a token, argmax of every prediction) of a float model over the sequences of `evaluate.pieces`."""
    try:
        import torch

        from .float_model import load
    except ImportError as error:
        raise UserError(f"this needs PyTorch ({error}); run: pip install 'symlight[train]'") from error
    model, loss = load(checkpoint), 0.0
    chosen: list[np.ndarray] = []
    with torch.no_grad():
        for piece in pieces(tokens):
            done = sum(map(len, chosen))
            targets = torch.from_numpy(tokens[done + 1 : done + 1 + piece.size])
            logits = model(torch.from_numpy(piece)).flatten(0, 1)
            loss += float(torch.nn.functional.cross_entropy(logits, targets, reduction="sum"))
            chosen.append(logits.argmax(dim=1).numpy())
    return loss / (len(tokens) - 1), np.concatenate(chosen)


def quality_table(package: Package, checkpoint: Path | None, text: corpora.Corpus) -> Iterator[str]:
    """Lines: quality over the whole text, then density by layer."""
    tokens, size = heldout_tokens(package, text), corpora.byte_count(text)
    loss, choices = (None, None) if checkpoint is None else float_quality(checkpoint, tokens)
    result = evaluate(package.model, present(package.meta.logit_scale), tokens, choices=choices)
    yield f"Held-out text: {size:,} bytes, {len(tokens):,} tokens, in sequences of 256 from a new session."
    yield from ("", "| held out | float | integer |", "|---|---|---|")
    real = None if loss is None else loss * len(tokens) / math.log(2) / size
    yield f"| bits per byte | {_cell(real)} | {_cell(result.bits_per_byte(len(tokens), size))} |"
    perplexity = None if loss is None else math.exp(loss)
    yield f"| perplexity per token | {_cell(perplexity, '.2f')} | {_cell(result.perplexity, '.2f')} |"
    hits = None if choices is None else float((choices == tokens[1:]).mean())
    yield f"| next token is the greedy one | {_cell(hits, '.1%')} | {_cell(result.accuracy, '.1%')} |"
    yield f"| same greedy token as the float model | | {_cell(result.agreement, '.1%')} |"
    yield ""
    yield from density_table(package, result)


def density_table(package: Package, result: Evaluation) -> Iterator[str]:
    """Lines: by layer, share of nonzero inputs at each event site and of rows without a positive score."""
    yield "| layer | " + " | ".join(SITES) + " | zero-sum attention rows |"
    yield "|---" * (len(SITES) + 2) + "|"
    for layer, (sites, zero_sum) in enumerate(zip(result.densities, result.zero_sums, strict=True)):
        yield f"| {layer} | " + " | ".join(f"{site:.1%}" for site in sites) + f" | {zero_sum:.2%} |"
    means = " | ".join(f"{site:.1%}" for site in result.densities.mean(axis=0))
    yield f"| mean | {means} | {result.zero_sums.mean():.2%} |"
    whole = weighted_density(result.densities, package.shape)
    yield from ("", f"Weighted by the weight bytes of each site: {whole:.1%}.")


def _cell(value: float | None, form: str = ".4f") -> str:
    return "" if value is None else format(value, form)


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m symlight.model.training.quality_report", description=__doc__
    )
    parser.add_argument("--package", type=Path, required=True, help="folder of the integer model")
    parser.add_argument("--checkpoint", type=Path, help="float model it was made of; default: integers only")
    parser.add_argument("--heldout", type=Path, required=True, help="text that training wrote as heldout.txt")
    given = parser.parse_args(arguments)
    package = load_package(given.package)
    if package.meta.logit_scale is None:
        raise UserError(f"package {given.package} has no logit scale, so its loss is unknown")
    for line in quality_table(package, given.checkpoint, corpora.read_text(given.heldout)):
        print(line)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
