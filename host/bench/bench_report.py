"""What a benchmark says: one object for `--json` and `benchmarks/`, and a few tables for a person."""

from collections.abc import Sequence
from statistics import median

import numpy as np
from rich.console import Console

from symlight.hw.compiler.layout import Layout, MatrixPlan
from symlight.hw.config import Engine
from symlight.model.config import ModelShape
from symlight.model.reference import SITES

from ..terminal.turn_report import phase_table, print_table
from . import paper
from .measure import DECODE, FIRST, PORT_COUNTERS, PROMPT, Measurement, Pass

CLOCKS = (175, 300)  # MHz that every result has a key for
OUTSIDE = ("io",)  # traffic that belongs to no pass: prompt ids


def useful_shares(layout: Layout) -> dict[str, float]:
    """Operation -> share of the bytes read that is no padding: of the matrix, the ring or the rows
    themselves."""
    shape, lanes = layout.shape, layout.engine.lanes

    def matrix(plan: MatrixPlan, outputs: int, rows: int | None = None) -> float:
        """`rows`: real input rows of an operation that reads all; None: its padding rows are never read."""
        share = outputs / (plan.columns * plan.beats * lanes)
        return share if rows is None else share * rows / (plan.in_words * lanes)

    dense = layout.engine.fixed_gather == "dense"
    width, ffn = (shape.width, shape.ffn) if dense else (None, None)
    ring = layout.ring
    head = (
        shape.vocab
        * (shape.head_rows + 2)
        / (layout.tiles * layout.tile_beats * layout.engine.channels * lanes)
    )
    return {
        "qkv": matrix(layout.qkv, 3 * shape.width, width),
        "decay": matrix(layout.decay, shape.width, width),
        "out": matrix(layout.out, shape.width, shape.width),
        "up": matrix(layout.up, shape.ffn, width),
        "down": matrix(layout.down, shape.width, ffn),
        "prior": matrix(layout.prior, shape.bottleneck, shape.width),
        "head": head,
        "kv": shape.width / (ring.columns * ring.heads * ring.head_words * lanes),
        "embed": shape.width / (layout.width_words * lanes),
        "io": 0.0,
    }


def executed_macs(shape: ModelShape, active: np.ndarray, passes: int) -> float:
    """Executed over dense projection products of passes with the head; a product of a zero event is not
    executed.

    active [layers, 4]: nonzero inputs by SITES, summed over the passes. W_O, the prior and the head are
    dense.
    """
    outputs = {"qkv": 3 * shape.width, "decay": shape.width, "up": shape.ffn, "down": shape.width}
    inputs = {site: shape.ffn if site == "down" else shape.width for site in SITES}
    always = passes * (
        shape.layers * shape.width**2 + shape.width * shape.bottleneck + shape.vocab * shape.head_rows
    )
    executed = sum(int(active[:, i].sum()) * outputs[site] for i, site in enumerate(SITES))
    dense = passes * shape.layers * sum(inputs[site] * outputs[site] for site in SITES)
    return (executed + always) / (dense + always)


def spread(values: Sequence[int]) -> dict | None:
    """Minimum, median and maximum; None of nothing."""
    return {"min": min(values), "median": median(values), "max": max(values)} if values else None


def utilisation(passes: list[Pass], layout: Layout) -> float | None:
    """Bytes of accepted read beats without padding, over what the ports could carry in the same cycles."""
    if not passes:
        return None
    shares, engine = useful_shares(layout), layout.engine
    read = sum(count * shares[name] for one in passes for name, count in one.bytes_read.items())
    return read / (engine.channels * engine.beat_bytes * sum(one.cycles for one in passes))


def summary(passes: list[Pass], layout: Layout) -> dict | None:
    """Means of passes of one kind: by operation, at the ports, by site."""
    if not passes:
        return None
    count, engine = len(passes), layout.engine
    cycles = sum(one.cycles for one in passes)
    phases = {
        name: {
            "stream": sum(one.phases[name][0] for one in passes) / count,
            "hand_over": sum(one.phases[name][1] for one in passes) / count,
        }
        for name in passes[0].phases
    }
    read = {
        name: sum(one.bytes_read[name] for one in passes) / count
        for name in passes[0].bytes_read
        if name not in OUTSIDE
    }
    seen = {name: sum(one.ports[name] for one in passes) for name in PORT_COUNTERS}
    beats = sum(read.values()) * count / engine.beat_bytes
    whole = engine.channels * cycles
    # A cycle of a port: a beat moves, or a read is in flight and memory has nothing yet, or the kernel does
    # not take it,
    # or nothing is in flight because nothing was asked for.
    parts = {
        "beats": beats / whole,
        "memory_waits": seen["read_waits"] / whole,
        "kernel_waits": seen["read_stalls"] / whole,
    }
    inputs = np.array([layout.shape.ffn if site == "down" else layout.shape.width for site in SITES])
    density = sum(one.active for one in passes) / (inputs * count)
    return {
        "passes": count,
        "cycles": spread([one.cycles for one in passes]),
        "phases": phases,
        "bytes_read": read,
        "port_cycles": parts | {"nothing_asked": 1 - sum(parts.values())},
        "address_stalls": seen["address_stalls"] / whole,
        "port_utilisation": utilisation(passes, layout),
        "density": dict(zip(SITES, density.mean(axis=0).round(6).tolist(), strict=True)),
        "density_by_layer": density.round(6).tolist(),
    }


def measurement_json(measured: Measurement, layout: Layout) -> dict:
    """Everything about one clock; the keys that `symlight bench --json` promises among it."""
    kinds = {kind: measured.of(kind) for kind in (PROMPT, FIRST, DECODE)}
    decode, prompt = summary(kinds[DECODE], layout), summary(kinds[PROMPT], layout)
    return {
        "clock_mhz": measured.clock_mhz,
        "decode_cycles": decode and decode["cycles"],
        "prompt_cycles": prompt and prompt["cycles"],
        "first_token_cycles": spread([one.cycles for one in kinds[FIRST]]),
        "phases": decode and decode["phases"],
        "bytes_read": decode and decode["bytes_read"],
        "port_utilisation": decode and decode["port_utilisation"],
        "decode": decode,
        "prompt": prompt,
        "executed_macs": executed_macs(
            layout.shape, np.sum([one.active for one in kinds[DECODE]], axis=0), len(kinds[DECODE])
        )
        if kinds[DECODE]
        else None,
        "autonomous_decode_cycles_mean": measured.autonomous,
        "bit_exact": measured.difference is None,
        "difference": measured.difference,
        "tokens": measured.tokens,
        "pass_cycles": [[one.kind, one.cycles] for one in measured.passes],
        "simulation_cycles_per_second": round(measured.simulated_cycles / measured.wall_seconds),
    }


def passes_per_second(measurements: Sequence[Measurement]) -> dict[str, float | None]:
    """By clock; null where nothing was run at that clock: cycles do not scale with it, as the memory's time
    does not."""
    rates: dict[str, float | None] = {str(clock): None for clock in CLOCKS}
    for one in measurements:
        if decode := one.of(DECODE):
            rates[str(one.clock_mhz)] = round(one.clock_mhz * 1e6 / median(p.cycles for p in decode), 1)
    return rates


def bench_json(measurements: Sequence[Measurement], layout: Layout, about: dict) -> dict:
    """The object of `symlight bench --json`: `about` the run, the first clock's figures on top, further
    clocks below."""
    first, *others = [measurement_json(one, layout) for one in measurements]
    return (
        about
        | first
        | {
            "passes_per_second": passes_per_second(measurements),
            "bit_exact": all(one.difference is None for one in measurements),
            "other_clocks": {str(one["clock_mhz"]): one for one in others},
            "paper": {
                "device_cycles": paper.device_cycles(about["build"]),
                "host_observed_cycles": paper.host_cycles(about["build"], about["prefix"]),
            },
        }
    )


def print_bench(console: Console, result: dict, engine: Engine) -> None:
    """The result for a person."""
    cycles = sum(sum(phase.values()) for phase in result["phases"].values())
    read = result["bytes_read"]
    table = phase_table("a decode pass, mean", result["phases"], cycles, read)
    table.add_row("kv", "", "", "", f"{read['kv']:,.0f}")
    print_table(console, table, 1)
    ports = ", ".join(
        f"{name.replace('_', ' ')} {share:.1%}" for name, share in result["decode"]["port_cycles"].items()
    )
    rates = ", ".join(
        f"{rate:,.1f} at {clock} MHz" for clock, rate in result["passes_per_second"].items() if rate
    )
    compared = {
        "device": result["paper"]["device_cycles"],
        "host-observed": result["paper"]["host_observed_cycles"],
    }
    paper_line = ", ".join(f"{value:,} ({name})" for name, value in compared.items() if value) or "no figure"
    lines = [
        f"decode pass: {_spread(result['decode_cycles'])} cycles; {rates} passes/s",
        f"prompt pass without head: {_spread(result['prompt_cycles'])} cycles",
        f"port utilisation {result['port_utilisation']:.3f}; cycles of the ports: {ports}",
        f"executed/dense projection products {result['executed_macs']:.4f}",
        f"the paper's build of this kind: {paper_line}",
        f"simulated {result['simulation_cycles_per_second']:,} cycles/s on {engine.channels} channels",
    ]
    for line in lines:
        console.print(line, highlight=False)
    if result["bit_exact"]:
        console.print(f"bit-exact with: {result['compared_with']}", style="green")


def _spread(values: dict | None) -> str:
    return "none" if values is None else f"{values['median']:,.0f} ({values['min']:,} to {values['max']:,})"
