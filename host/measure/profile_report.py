"""A profile as tables on a terminal, and as a page of its own with heat maps."""

import html

import numpy as np
from rich.table import Table

from symlight.model.reference import SITES

from ..terminal.plain import PlainConsole
from ..terminal.turn_report import print_table
from .profile import ProfileV2

MOST_COLUMNS = 256  # of a heat map; longer texts are averaged
_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .15em .7em; text-align: right }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 1px solid #999 }
svg { display: block; width: 100%; height: auto; background: #eee } h2 { margin-top: 2em }"""


def _cells(found: dict) -> tuple[list[tuple], list[tuple]]:
    """Rows of the table of operations, and of the table of matrices."""
    whole = sum(one["microseconds"] for one in found["operations"].values()) or 1.0
    operations = [
        (
            name,
            f"{one['microseconds']:,.1f}",
            f"{one['microseconds'] / whole:.1%}",
            f"{one['bytes'] / 1e6:,.3f}" if one["bytes"] else "",
            "" if one["bytes_a_second"] is None else f"{one['bytes_a_second'] / 1e9:.1f}",
        )
        for name, one in found["operations"].items()
    ]
    matrices = [
        (
            name,
            f"{one['executed']:,}",
            f"{one['dense']:,}",
            "" if one["share"] is None else f"{one['share']:.3f}",
        )
        for name, one in found["matrices"].items()
    ]
    return operations, matrices


OPERATION_TITLES = ("operation", "µs", "share", "MB", "GB/s")
MATRIX_TITLES = ("matrix", "products executed", "dense", "share")


def summary(found: dict) -> list[str]:
    """A few sentences."""
    share = found["executed_over_dense"]
    lines = [
        f"{found['prompt_tokens']} prompt tokens, {found['decode_passes']} decode passes, "
        f"{found['threads']} threads, {found['instruction_set']}",
        f"density {found['density']:.3f}, weighted by the weights of each site; head input "
        f"{found['head_density']['a']:.3f}, hidden {found['head_density']['g']:.3f}",
        f"executed over dense products {'-' if share is None else format(share, '.3f')}",
    ]
    if found["decode_tokens_a_second"] is not None:
        speed, read = found["decode_tokens_a_second"], found["bytes_a_token"]
        lines.append(
            f"decode {speed:,.1f} tokens/s (median), {read / 1e6:,.2f} MB of weights a token: "
            f"{speed * read / 1e9:.2f} GB/s of {found['read_bytes_a_second'] / 1e9:.2f} GB/s read bandwidth"
        )
    return lines


def print_profile(profile: ProfileV2) -> None:
    """Tables on standard output."""
    found, console = profile.to_json(), PlainConsole()
    table = Table("layer", *SITES, "out", title="density: share of nonzero inputs")
    for layer, row in enumerate(np.column_stack([profile.densities, profile.out_densities])):
        table.add_row(str(layer), *(f"{value:.3f}" for value in row))
    print_table(console, table, 0)
    operations, matrices = _cells(found)
    for title, titles, rows in (
        ("a decode pass", OPERATION_TITLES, operations),
        ("all passes", MATRIX_TITLES, matrices),
    ):
        table = Table(*titles, title=title)
        for row in rows:
            table.add_row(*row)
        print_table(console, table, 1)
    for line in summary(found):
        console.print(line)


# ---- page ------------------------------------------------------------------------------------------------


def page(profile: ProfileV2, title: str) -> str:
    """An HTML page that needs nothing else: the tables, and a heat map of layers by tokens for every site."""
    found = profile.to_json()
    operations, matrices = _cells(found)
    by_token = profile.active / profile.inputs  # [tokens, L, 4]
    parts = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(line)}</p>" for line in summary(found))]
    parts += ["<h2>Density by layer and site</h2>", heat_map(profile.densities.T, list(SITES))]
    for index, site in enumerate(SITES):
        parts += [
            f"<h2>{site}: layers by tokens</h2>",
            "<p>From left to right: the prompt, then what was generated. From top to bottom: the layers.</p>",
            heat_map(_narrow(by_token[:, :, index].T)),
        ]
    by_layer = np.column_stack([profile.densities, profile.out_densities])
    layers = [(str(layer), *(f"{value:.3f}" for value in row)) for layer, row in enumerate(by_layer)]
    parts += ["<h2>Numbers</h2>", _table(("layer", *SITES, "out"), layers)]
    parts += ["<h2>A decode pass</h2>", _table(OPERATION_TITLES, operations)]
    parts += ["<h2>Products</h2>", _table(MATRIX_TITLES, matrices)]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>\n'


def heat_map(values: np.ndarray, names: list[str] | None = None) -> str:
    """An SVG of values [rows, columns] in 0..1; the colour scale ends at the largest value."""
    rows, columns = values.shape
    if not values.size:
        return "<p>Nothing was measured.</p>"
    top, height, width = float(values.max()) or 1.0, 14, max(2.0, 900 / columns)
    cells = []
    for row in range(rows):
        for column in range(columns):
            value = float(values[row, column])
            label = f"{names[row] + ', ' if names else 'layer ' + str(row) + ', '}{column}: {value:.3f}"
            place = f'x="{column * width:.2f}" y="{row * height}" width="{width:.2f}" height="{height}"'
            cells.append(f'<rect {place} fill="{_colour(value / top)}"><title>{label}</title></rect>')
    note = f"<p>White is 0, the darkest {top:.3f}.</p>"
    size = f"0 0 {columns * width:.0f} {rows * height}"
    return f'<svg viewBox="{size}" preserveAspectRatio="none">{"".join(cells)}</svg>{note}'


def _colour(share: float) -> str:
    """White at 0, dark blue at 1."""
    low, high = np.array([255, 255, 255]), np.array([8, 48, 107])
    return "#" + "".join(f"{int(round(x)):02x}" for x in low + (high - low) * min(max(share, 0.0), 1.0))


def _narrow(values: np.ndarray) -> np.ndarray:
    """At most MOST_COLUMNS columns: averages of neighbours."""
    columns = values.shape[1]
    if columns <= MOST_COLUMNS:
        return values
    edges = np.linspace(0, columns, MOST_COLUMNS + 1).astype(int)
    return np.stack([values[:, a:b].mean(axis=1) for a, b in zip(edges, edges[1:], strict=False)], axis=1)


def _table(titles: tuple, rows: list[tuple]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
