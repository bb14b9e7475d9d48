"""A campaign as a picture: power over time with its windows, and the energy of a token by prefix."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from .protocol import Record

COLOURS = {"idle before": "tab:blue", "active": "tab:orange", "idle after": "tab:blue"}


def plot(record: Record, result: dict, path: Path) -> Figure:
    """Draw `path`; the figure."""
    figure: Figure
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 4.8), constrained_layout=True, width_ratios=(2, 1)
    )
    times, watts = record.series.power()
    start = times[0] if times else 0.0
    left.plot([time - start for time in times], watts, color="black", linewidth=0.8)
    for done in record.rounds:
        for window in done.windows:
            left.axvspan(window.begin - start, window.end - start, color=COLOURS[window.kind], alpha=0.2)
    left.set(
        title=f"{result['device']}: board power (blue: loaded idle, orange: requests)", xlabel="s", ylabel="W"
    )
    _energy(right, result)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return figure


def _energy(axis, result: dict) -> None:
    """Complete requests: the idle share below, what activity adds above."""
    shown = [one for one in result["summary"] if one["request_incremental_joules"] is not None]
    names = [f"p{one['prefix']}" for one in shown]
    idle = [one["request_idle_share_joules"]["median"] for one in shown]
    more = [one["request_incremental_joules"]["median"] for one in shown]
    axis.bar(names, idle, color="tab:blue", label="idle share")
    axis.bar(names, more, bottom=idle, color="tab:orange", label="incremental")
    axis.set(title=f"request energy, n{result['settings']['new_tokens']}", ylabel="J a generated token")
    if shown:
        axis.legend()
