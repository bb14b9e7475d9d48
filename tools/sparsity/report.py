"""The sweep as a table and as a picture: quality against bytes, with the Pareto front."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from .sweep import Row

COLUMNS = ("qkv", "decay", "out", "up", "down", "head", "head_g")


def front(rows: Sequence[Row], cost: str = "bytes_a_token") -> list[Row]:
    """The rows that no other row beats in both, by rising cost."""
    best, found = float("inf"), []
    for row in sorted(rows, key=lambda row: (getattr(row, cost), row.bits_per_byte)):
        if row.bits_per_byte < best:
            best = row.bits_per_byte
            found.append(row)
    return found


def base(rows: Sequence[Row]) -> Row:
    """The published model without a penalty."""
    return next(row for row in rows if not row.sites and row.strength == 0)


def table(rows: Sequence[Row]) -> str:
    """Markdown: quality, bytes, densities (of the paper's Table II), what was measured."""
    reference, on_front = base(rows), front(rows)
    measured = list(dict.fromkeys(name for row in rows for name in row.measured))
    head = ["model", "bits/byte", "against base", "bytes a token", "cut", "r", *COLUMNS, *measured]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [
            f"**{row.name}**" if row in on_front else row.name,
            f"{row.bits_per_byte:.4f}",
            f"{row.bits_per_byte / reference.bits_per_byte - 1:+.1%}",
            f"{row.bytes_a_token:,}",
            f"{reference.bytes_a_token / row.bytes_a_token:.2f} x",
            f"{row.mac_density:.3f}",
            *(f"{row.densities[name]:.1%}" for name in COLUMNS),
            *(_cell(row.measured.get(name)) for name in measured),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, (bool, str, dict)) else f"{value:,.0f}"


def plot(rows: Sequence[Row], file: Path) -> bool:
    """Bits a byte against bytes a token, and the Pareto front; False without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for chosen, label in ((False, "as published"), (True, "events at W_O and the head, too")):
        some = [row for row in rows if bool(row.sites) == chosen]
        axis.plot(
            [row.bytes_a_token / 1e3 for row in some], [row.bits_per_byte for row in some], "o-", label=label
        )
        for row in some:
            axis.annotate(f"{row.strength:g}", (row.bytes_a_token / 1e3, row.bits_per_byte))
    best = front(rows)
    axis.step(
        [row.bytes_a_token / 1e3 for row in best], [row.bits_per_byte for row in best], "k--", where="post",
        label="Pareto front",
    )  # fmt: skip
    axis.set_xlabel("kilobytes of weights a token")
    axis.set_ylabel("held-out bits a byte")
    axis.legend()
    figure.savefig(file, dpi=120, metadata={"Software": None})
    plt.close(figure)
    return True
