"""The measured parts of "Choosing a token": `python -m symlight.model.training.sampling_report` prints them.

The real logits are those of a package after the twenty prompts of `model.training.prompts`, each continued
greedily.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from symlight.base.errors import UserError
from symlight.base.optional import present

from ..package import Package, load_package
from ..reference import Reference
from ..sampling import SamplerSettings, SamplingOptions, candidates, kept, weights
from .prompts import NEW_TOKENS, PROMPTS

TEMPERATURES = (0.3, 0.8, 1.0, 1.5)
COUNTS = (16, 32, 64)


def real_probabilities(logits: np.ndarray, scale: float, temperature: float) -> np.ndarray:
    """Softmax of logits [..., V] at a temperature, in float64."""
    x = np.asarray(logits, np.float64) * (scale / temperature)
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def integer_probabilities(values: np.ndarray, settings: SamplerSettings) -> np.ndarray:
    """Probabilities that the integer sampler gives to ordered candidates; 0 where truncated."""
    w = weights(values[0] - values, settings.multiplier, settings.shift)
    w[kept(w, settings) :] = 0
    return w / w.sum()


def total_variation(logits: np.ndarray, scale: float, options: SamplingOptions) -> float:
    """Distance between the integer sampler and real numbers, both over the K candidates."""
    ids, values = candidates(logits)
    real = real_probabilities(logits, scale, options.temperature)[ids]
    ours = integer_probabilities(values, SamplerSettings.of(options, scale))
    return float(np.abs(real / real.sum() - ours).sum() / 2)


def lost_mass(logits: np.ndarray, scale: float, temperature: float, count: int) -> float:
    """Probability of all tokens beyond the `count` most likely ones."""
    p = np.sort(real_probabilities(logits, scale, temperature))[::-1]
    return float(p[count:].sum())


@dataclass(frozen=True)
class Row:
    """Figures over all logits at one temperature; `lost` by `COUNTS`: (mean, worst)."""

    temperature: float
    mean_variation: float
    worst_variation: float
    lost: list[tuple[float, float]]


def measure(logits: np.ndarray, scale: float, temperature: float) -> Row:
    """Error and lost mass over logits [N, V]."""
    options = SamplingOptions(temperature=temperature)
    variations = [total_variation(row, scale, options) for row in logits]
    lost = [[lost_mass(row, scale, temperature, count) for row in logits] for count in COUNTS]
    pairs = [(float(np.mean(values)), max(values)) for values in lost]
    return Row(temperature, float(np.mean(variations)), max(variations), pairs)


def real_logits(package: Package, prompts=PROMPTS, count: int = NEW_TOKENS) -> np.ndarray:
    """Logits [N, V] of every position of the prompts and their greedy continuations."""
    reference, rows = Reference(package.model), []
    for prompt in prompts:
        reference.reset()
        tokens = package.encode(prompt)
        for index in range(len(tokens) + count):
            result = reference.ingest(tokens[index], want_logits=True)
            rows.append(result.logits)
            if index == len(tokens) - 1:
                tokens.append(present(result.token))
    return np.array(rows)


def table(package: Package) -> Iterator[str]:
    """Lines of the table in docs/arithmetic.md."""
    logits = real_logits(package)
    yield f"{len(logits):,} positions of {package.meta.name}."
    yield ""
    heads = " | ".join(f"lost beyond {count}: mean, worst" for count in COUNTS)
    yield f"| temperature | total variation: mean, worst | {heads} |"
    yield "|---" * (2 + len(COUNTS)) + "|"
    for temperature in TEMPERATURES:
        row = measure(logits, present(package.meta.logit_scale), temperature)
        lost = " | ".join(f"{mean:.2%}, {worst:.2%}" for mean, worst in row.lost)
        yield f"| {temperature} | {row.mean_variation:.1e}, {row.worst_variation:.1e} | {lost} |"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m symlight.model.training.sampling_report", description=__doc__
    )
    parser.add_argument("--package", type=Path, required=True, help="folder of the integer model")
    package = load_package(parser.parse_args(arguments).package)
    if package.meta.logit_scale is None:
        raise UserError(f"package {package.path} has no logit scale, so a temperature has no meaning")
    print("\n".join(table(package)))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
