"""The benchmarks as a picture: throughput per build beside the paper's, and where the cycles of a pass go."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from . import paper
from .table import read_results

PLOT = "benchmarks.png"


def plot(folder: Path) -> list[Path]:
    """Draw `benchmarks.png` out of the results in `folder`; the files that were written."""
    results = [one for one in read_results(folder) if one["bit_exact"] and one["max_bytes"] == 4096]
    if not results:
        return []
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.2), constrained_layout=True)
    _throughput(left, [one for one in results if one["clock"] == paper.CLOCK_MHZ])
    _cycles(right, [one for one in results if one["clock"] == paper.CLOCK_MHZ])
    file = folder / PLOT
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return [file]


def _throughput(axis, results: list[dict]) -> None:
    builds = list(dict.fromkeys(one["build"] for one in results))
    width = 0.2
    series = {
        f"this design, p{prefix}": {
            one["build"]: one["passes_per_second"][str(paper.CLOCK_MHZ)]
            for one in results
            if one["prefix"] == prefix
        }
        for prefix in (32, 480)
    }
    series["paper, device (prefix not stated)"] = paper.DEVICE_PASSES_PER_SECOND
    series["paper, host-observed, p32"] = {
        build: rate for (build, prefix), rate in paper.HOST_TOKENS_PER_SECOND.items() if prefix == 32
    }
    for number, (label, rates) in enumerate(series.items()):
        here = [(i, rates[build]) for i, build in enumerate(builds) if build in rates]
        axis.bar(
            [i + (number - 1.5) * width for i, _ in here], [rate for _, rate in here], width, label=label
        )
    axis.set_xticks(range(len(builds)), builds)
    axis.set_ylabel(f"decode passes/s at {paper.CLOCK_MHZ} MHz")
    axis.set_title("throughput by build (ours simulated, synthetic weights)")
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)


def _cycles(axis, results: list[dict]) -> None:
    """Stacked: an operation's stream and turnaround cycles."""
    names = [f"{one['build']}\np{one['prefix']}" for one in results]
    bottom = [0.0] * len(results)
    colours = plt.get_cmap("tab10")
    for number, phase in enumerate(results[0]["phases"] if results else ()):
        for part, hatch in (("stream", None), ("hand_over", "////")):
            heights = [one["phases"][phase][part] for one in results]
            label = phase if part == "stream" else None
            axis.bar(
                range(len(results)),
                heights,
                0.7,
                bottom=bottom,
                label=label,
                hatch=hatch,
                color=colours(number % 10),
                edgecolor="white",
                linewidth=0.3,
            )
            bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
    axis.set_xticks(range(len(results)), names, fontsize=7, rotation=30)
    axis.set_ylabel("cycles of a decode pass")
    axis.set_title("where the cycles go (hatched: turnaround)")
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
