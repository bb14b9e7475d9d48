"""What a campaign of `host.bench.protocol` says: figures of every round, medians and spreads over rounds,
and what
was not measured."""

import csv
import io
from collections.abc import Callable
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from symlight.base.printable import printable

from . import energy
from .protocol import IDLE_DROPPED, Record, Round, Window

IDLE = ("idle before", "idle after")
# Figure -> unit and meaning, in the order of tables. All are of one round, or over the rounds.
FIGURES = {
    "decode_tokens_per_second": "generated tokens a second of decoding (equation 9)",
    "request_tokens_per_second": "generated tokens a second of whole requests (equation 10)",
    "prefill_seconds": "of a request, the prompt's run",
    "decode_seconds": "of a request, the run that generates",
    "device_passes_per_second": "decode passes a second by kernel cycles, without the host",
    "idle_watts": "loaded idle: mean of the windows before and after, "
    f"without the first {IDLE_DROPPED:g} s of each",
    "active_watts": "mean over the window of requests",
    "decode_gross_joules": "a generated token: active watts over decode rate (equation 8)",
    "decode_idle_share_joules": "of it, idle watts over decode rate",
    "decode_incremental_joules": "of it, the rest",
    "request_gross_joules": "a generated token: active watts over request rate",
    "request_idle_share_joules": "of it, idle watts over request rate",
    "request_incremental_joules": "of it, the rest",
    "window_joules": "a generated token: energy of the whole window of requests over its tokens, "
    "the host's pauses included",
}


def figures(
    done: Round, power: tuple[list[float], list[float]], say: Callable[[str], None]
) -> dict[str, float | None]:
    """`FIGURES` of one round; None where nothing was measured, and then `say` gets a sentence about it."""
    found: dict[str, float | None] = dict.fromkeys(FIGURES)
    prefill, decode = (
        sum(getattr(r, name) for r in done.requests) for name in ("prefill_seconds", "decode_seconds")
    )
    rates = {
        "decode": energy.decode_rate(done.generated, decode),
        "request": energy.request_rate(done.generated, prefill, decode),
    }
    for kind, rate in rates.items():
        found[f"{kind}_tokens_per_second"] = rate
    found["prefill_seconds"], found["decode_seconds"] = (
        prefill / len(done.requests),
        decode / len(done.requests),
    )
    watts = {window.kind: _watts(done, window, power, say) for window in done.windows} if power[0] else {}
    found["active_watts"] = active = watts.get("active")
    of_idle = [value for kind in IDLE if (value := watts.get(kind)) is not None]
    found["idle_watts"] = idle = sum(of_idle) / 2 if len(of_idle) == 2 else None
    if active is not None:
        (window,) = (window for window in done.windows if window.kind == "active")
        found["window_joules"] = active * (window.end - window.begin) / done.generated
        for kind, rate in rates.items():
            found[f"{kind}_gross_joules"] = active / rate
            if idle is not None:
                parts = energy.split(active, idle, rate)
                found[f"{kind}_idle_share_joules"], found[f"{kind}_incremental_joules"] = (
                    parts.idle_share,
                    parts.incremental,
                )
    return found


def _watts(
    done: Round, window: Window, power: tuple[list[float], list[float]], say: Callable[[str], None]
) -> float | None:
    times, watts = power
    try:
        return energy.mean_power(times, watts, window.begin, window.end)
    except energy.NotCovered as error:
        say(f"power of the window `{window.kind}` of prefix {done.prefix}, round {done.number}: {error}")
        return None


def _device_rate(done: Round, clock_mhz: float | None) -> float | None:
    cycles = [count for request in done.requests if (count := request.decode_cycles) is not None]
    if clock_mhz is None or len(cycles) < len(done.requests) or not sum(cycles):
        return None
    return sum(request.decode_passes for request in done.requests) * clock_mhz * 1e6 / sum(cycles)


def over_rounds(values: list[float | None]) -> dict | None:
    """Median, extremes and spread of one figure; None unless every round has it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    middle = median(known)
    return {
        "median": middle,
        "min": min(known),
        "max": max(known),
        "spread": energy.spread(known) if middle else None,
    }


def summarise(rounds: list[dict]) -> list[dict]:
    """One entry a prefix: every figure over the rounds, each reduced by itself."""
    found = []
    for prefix in dict.fromkeys(one["prefix"] for one in rounds):
        mine = [one for one in rounds if one["prefix"] == prefix]
        entry = {"prefix": prefix, "rounds": len(mine)} | {
            name: over_rounds([one[name] for one in mine]) for name in FIGURES
        }
        watts, rate = entry["active_watts"], entry["request_tokens_per_second"]
        # As the paper reduces complete requests: median power over median rate, which no round need have.
        entry["request_gross_joules_of_medians"] = None if watts is None else watts["median"] / rate["median"]
        found.append(entry)
    return found


def protocol_json(record: Record, facts: dict) -> dict:
    """Everything about a campaign but its samples (`samples_csv`). `facts`: what else is known about device
    and model."""
    missing: list[str] = []
    power = record.series.power() if record.sensor else ([], [])
    if record.sensor is None:
        missing.append(f"power and energy: {record.about_sensor}")
    if record.timing == "kernel":
        missing.append(
            "times as a host sees them: on the simulated card they are kernel cycles over the kernel clock, "
            "without the host's share; they repeat exactly, so there is one round of one request"
        )
    rounds = [_round_json(record, done, power, missing.append) for done in record.rounds]
    return {
        **facts,
        "settings": _settings(record),
        "timing": record.timing,
        "clock_mhz": record.clock_mhz,
        "sensor": record.sensor,
        "about_sensor": record.about_sensor,
        "readings": {
            "taken": len(record.series.samples),
            "distinct": len(power[0]),
            "failed": record.failed_readings,
        },
        "figures": FIGURES,
        "rounds": rounds,
        "summary": summarise(rounds),
        "tokens": {str(prefix): tokens for prefix, tokens in record.tokens.items()},
        "complete": record.complete,
        "not_measured": missing,
    }


def _settings(record: Record) -> dict:
    values = record.settings
    return {name: getattr(values, name) for name in type(values).__dataclass_fields__} | {
        "idle_dropped": IDLE_DROPPED
    }


def _round_json(record: Record, done: Round, power, say) -> dict:
    found = figures(done, power, say)
    found["device_passes_per_second"] = _device_rate(done, record.clock_mhz)
    windows = [
        {
            "kind": w.kind,
            "begin": w.begin,
            "end": w.end,
            "temperatures": record.series.temperatures(w.begin, w.end),
        }
        for w in done.windows
    ]
    return {
        "prefix": done.prefix,
        "round": done.number,
        "requests": len(done.requests),
        "generated": done.generated,
        **found,
        "windows": windows,
        "seconds_of_requests": [
            [request.prefill_seconds, request.decode_seconds] for request in done.requests
        ],
    }


def samples_csv(record: Record) -> str:
    """Every sample: seconds, watts, whether it is a measurement of its own, the window it is in,
    temperatures."""
    names = sorted({name for sample in record.series.samples for name in sample.reading.temperatures})
    new, text = set(record.series.new()), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["seconds", "watts", "new", "prefix", "round", "window", *names])
    for i, sample in enumerate(record.series.samples):
        inside = next(
            (
                (d.prefix, d.number, w.kind)
                for d in record.rounds
                for w in d.windows
                if w.begin <= sample.time <= w.end
            ),
            ("", "", ""),
        )
        warm = sample.reading.temperatures
        watts = "" if sample.reading.watts is None else sample.reading.watts
        writer.writerow(
            [f"{sample.time:.3f}", watts, int(i in new), *inside, *(warm.get(name, "") for name in names)]
        )
    return text.getvalue()


def print_protocol(console: Console, result: dict) -> None:
    """Medians and spreads, one column a prefix, and what was not measured."""
    title = (
        f"{result['device']}: medians over rounds (spread)"
        if result["timing"] == "host"
        else f"{result['device']}: by kernel cycles"
    )
    table = Table(
        "",
        *(f"p{one['prefix']}/n{result['settings']['new_tokens']}" for one in result["summary"]),
        title=title,
    )
    for name in FIGURES:
        values = [one[name] for one in result["summary"]]
        if any(values):
            table.add_row(name.replace("_", " "), *(_cell(value) for value in values))
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)
    for sentence in result["not_measured"]:
        console.print(Text.assemble(("not measured:", "yellow"), " ", printable(sentence)))


def _cell(value: dict | None) -> str:
    if value is None:
        return "-"
    text = f"{value['median']:.4g}" if value["median"] < 100 else f"{value['median']:,.1f}"
    if value["spread"] is None or value["min"] == value["max"]:
        return text
    return f"{text} ({100 * value['spread']:.2f} %)"
