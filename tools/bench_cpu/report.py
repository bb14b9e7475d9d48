"""Figures and ratios of the rounds; the plot; the table of a page."""

import importlib.util
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

from symlight.base.files import write_whole

from .cells import PREFIXES, Round

MUST = {  # the least that the project accepts; the figure that it aims at
    "decode_over_llamacpp_q8": (1.6, 2.0),
    "sparse_over_dense": (1.6, 1.9),
    "bandwidth_share": (0.75, 0.9),
    "threads_2_over_1": (0.85, 0.95),
    "prefill256_over_decode": (6.0, 20.0),
    "sessions_8_over_1": (2.5, 4.0),
    "p480_over_p32": (0.85, 0.95),
    "speculation_over_plain": (1.3, 2.0),
    "speculation_demo_over_plain": (1.0, 1.3),
    "verify_speedup": (10.0, 50.0),
}
MEANING = {
    "decode_over_llamacpp_q8": "decode over llama.cpp Q8_0 of as many random weights, p32, 1 thread",
    "sparse_over_dense": "decode over the engine when it reads every row",
    "bandwidth_share": "bytes of weights read per second over the read bandwidth, 1 thread",
    "threads_2_over_1": "two threads over one, relative to their bandwidths",
    "prefill256_over_decode": "prefill of 256 tokens over decode, tokens/s",
    "sessions_8_over_1": "eight sessions together over one, tokens/s",
    "p480_over_p32": "decode at p480 over p32",
    "speculation_over_plain": "drafts over plain decode of a given text that quotes its prompt",
    "speculation_demo_over_plain": "the same text, written by the shipped model, which fits a cache",
    "verify_speedup": "golden model of 32 + 64 tokens: reference over engine, time",
}
ENGINES = {
    "ours": "symlight",
    "llama": "llama.cpp Q8_0",
    "rwkv7": "RWKV-7 Q8_0",
    "torch_int8": "torch INT8",
    "torch_fp32": "torch FP32",
}
BEGIN, END = "<!-- cpu: written by make bench-cpu -->", "<!-- end of cpu -->"


def ratios_of(one: Round, first: Round) -> dict[str, float]:
    """The ratios within a round; what was measured once comes from the first one. Cells may be missing."""

    def speed(name: str) -> float:
        seconds: float = (one if name in one else first)[name]["seconds"]
        return 1 / seconds

    def bandwidth(name: str) -> float:
        rate: float = one[name]["bytes_a_second"]
        return rate

    ways: dict[str, Callable[[], float]] = {
        "decode_over_llamacpp_q8": lambda: speed("ours_p32_1t") / speed("llama_p32_1t"),
        "sparse_over_dense": lambda: speed("layout_mixed_sparse_1t") / speed("layout_mixed_dense_1t"),
        "bandwidth_share": lambda: (
            speed("ours_p32_1t") * one["ours_p32_1t"]["bytes"] / bandwidth("bandwidth_1t")
        ),
        "threads_2_over_1": lambda: (
            speed("ours_p32_2t")
            / speed("ours_p32_1t")
            / (bandwidth("bandwidth_2t") / bandwidth("bandwidth_1t"))
        ),
        "prefill256_over_decode": lambda: speed("ours_prefill256_1t") / speed("ours_p32_1t"),
        "sessions_8_over_1": lambda: speed("ours_8_sessions_1t") / speed("ours_p32_1t"),
        "p480_over_p32": lambda: speed("ours_p480_1t") / speed("ours_p32_1t"),
        "speculation_over_plain": lambda: speed("given_drafts") / speed("given_plain"),
        "speculation_demo_over_plain": lambda: speed("quoting_drafts") / speed("quoting_plain"),
        "verify_speedup": lambda: speed("golden_engine") / speed("golden_reference"),
    }
    found = {}
    for name, way in ways.items():
        with suppress(KeyError):  # a cell that was left out, or a peer that is not there
            found[name] = way()
    return found


def figures(rounds: list[Round]) -> dict:
    """`ratios`, with all rounds beside them, and the median of every cell."""
    by_round = [ratios_of(one, rounds[0]) for one in rounds]
    names = [name for name in MUST if name in by_round[0]]
    cells = {}
    for name in rounds[0]:
        values = [one[name] for one in rounds if name in one]
        cells[name] = {
            key: median(value[key] for value in values)
            for key, kind in values[0].items()
            if isinstance(kind, float | int)
        }
        if "drafts" in values[0]:
            cells[name]["drafts"] = values[0]["drafts"]
    for case in ("quoting", "given"):
        texts = [rounds[0].get(f"{case}_{how}", {}).get("tokens") for how in ("plain", "drafts")]
        assert texts[0] == texts[1], "drafts changed the text"
    return {
        "ratios": {name: round(median(one[name] for one in by_round), 4) for name in names},
        "ratios_by_round": {name: [round(one[name], 4) for one in by_round] for name in names},
        "must": {name: MUST[name][0] for name in names},
        "cells": cells,
    }


def plot(result: dict, file: Path) -> None:
    """Tokens a second of every engine, and the ratios against what is asked of them."""
    if importlib.util.find_spec("matplotlib") is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    known = [name for name in ENGINES if f"{name}_p32_1t" in result["cells"]]
    for offset, threads in enumerate((1, 2)):
        here = [name for name in known if f"{name}_p32_{threads}t" in result["cells"]]
        speeds = [1 / result["cells"][f"{name}_p32_{threads}t"]["seconds"] for name in here]
        places = [known.index(name) + 0.4 * offset for name in here]
        bars = left.bar(places, speeds, 0.38, label=f"{threads} thread{'s' * (threads > 1)}")
        left.bar_label(bars, fmt="%.0f")
    left.set_xticks([i + 0.2 for i in range(len(known))], [ENGINES[name] for name in known])
    left.set_ylabel("decode, tokens/s at p32")
    left.legend()
    names = list(result["ratios"])
    right.barh(names, [result["ratios"][name] / result["must"][name] for name in names])
    right.axvline(1, color="black", linewidth=1)
    right.set_xlabel("ratio over what is asked of it")
    right.invert_yaxis()
    figure.savefig(file, dpi=120)


def table(result: dict) -> str:
    """The table as Markdown."""
    cells = result["cells"]
    known = [n for n in (1, 2) if f"ours_p32_{n}t" in cells]
    speeds = "; ".join(
        f"{n} thread{'s' * (n > 1)}: read bandwidth "
        f"{cells[f'bandwidth_{n}t']['bytes_a_second'] / 1e9:.1f} GB/s, "
        f"decode at p32 {1 / cells[f'ours_p32_{n}t']['seconds']:.0f} tokens per second"
        for n in known
    )
    lines = [
        f"Synthetic 194M weights on {result['machine']}. {speeds}. Medians of {result['rounds']} interleaved "
        f"rounds, processor time with one thread; commit {result['commit']}."
        + (f" Loading the packed weights takes {cells['load']['seconds']:.2f} s." if "load" in cells else ""),
        "",
        "| ratio | measured | asked | what |",
        "|---|---|---|---|",
    ]
    for name, value in result["ratios"].items():
        lines.append(f"| `{name}` | {value:.2f} | {MUST[name][0]:g} | {MEANING[name]} |")
    return "\n".join([*lines, *_speeds(cells)])


def _speeds(cells: dict) -> list[str]:
    """Decode speeds and memory of every engine, as a Markdown table; none where only some were measured."""
    columns = [f"p{prefix}_{threads}t" for threads in (1, 2) for prefix in PREFIXES]
    rows = []
    for engine, title in ENGINES.items():
        found = [cells.get(f"{engine}_{column}") for column in columns]
        speeds = [speed for speed in found if speed]
        memory = cells.get(f"memory_{engine}")
        if len(speeds) == len(found) and memory:
            shown = [f"{1 / speed['seconds']:.0f}" for speed in speeds]
            rows.append(f"| {' | '.join([title, *shown, format(memory['peak_mb'], '.0f')])} |")
    if not rows:
        return []
    titles = [column.replace("_", ", ").replace("t", " thread") for column in columns]
    heads = ["decode, tokens per second", *titles, "peak memory, MB"]
    return ["", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows]


def write_table(result: dict, page: Path) -> None:
    """Rewrite what lies between the marks of `page`."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{page} has no place for the table: {BEGIN} .. {END}")
    write_whole(page, pattern.sub(lambda _: f"{BEGIN}\n\n{table(result)}\n\n{END}", text))
