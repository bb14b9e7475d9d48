"""A traced pass as an SVG timeline, readable on a light and on a dark background."""

from html import escape

from .events import WINDOW, PassTrace
from .perfetto import operations

WIDTH, LEFT, RIGHT, TOP = 1100, 90, 20, 46  # pixels
ROW, GAP, BAR = 22, 6, 12
COLOURS = {
    "embed": "#8c8c8c",
    "qkv": "#4e79a7",
    "decay": "#76b7b2",
    "attention": "#e15759",
    "out": "#59a14f",
    "up": "#b07aa1",
    "down": "#9c755f",
    "prior": "#edc948",
    "head": "#f28e2b",
    "control": "#bab0ac",
}
STYLE = """
text { font: 12px sans-serif; fill: #222 }
.small { font-size: 10px }
.axis { stroke: #888; stroke-width: 1 }
.frame { fill: none; stroke: #bbb }
.beat { fill: #1f77b4 }
.turnaround { fill: #000; fill-opacity: 0.45 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .axis { stroke: #999 }
  .frame { stroke: #555 }
  .beat { fill: #6db3f2 }
  .turnaround { fill: #fff; fill-opacity: 0.55 }
}
"""


def timeline(one: PassTrace, title: str) -> str:
    """The picture: a row of operations, a row of turnaround cycles, and a row per memory port."""
    total = one.end - one.begin
    scale = (WIDTH - LEFT - RIGHT) / total

    def x(cycle: float) -> float:
        return round(LEFT + (cycle - one.begin) * scale, 2)

    channels = len(one.beats)
    ports_top = TOP + 2 * (ROW + GAP)
    height = ports_top + channels * (BAR + 2) + 70
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text x="{LEFT}" y="18">{escape(title)}</text>',
        _label("operation", TOP + ROW / 2),
        _label("turnaround", TOP + ROW + GAP + ROW / 2),
    ]
    for group in operations(one):
        first, last = group[0], group[-1]
        width = round((last.end - first.begin) * scale, 2)
        layer = "" if first.layer is None else f", layer {first.layer}"
        what = f"{first.operation}{layer}: {last.end - first.begin} cycles"
        parts.append(
            f'<rect x="{x(first.begin)}" y="{TOP}" width="{width}" height="{ROW}" '
            f'fill="{COLOURS[first.operation]}"><title>{what}</title></rect>'
        )
    for segment in one.segments:
        if segment.kind == "turnaround":
            width = round(segment.cycles * scale, 2)
            y = TOP + ROW + GAP
            parts.append(
                f'<rect class="turnaround" x="{x(segment.begin)}" y="{y}" width="{width}" height="{ROW}"/>'
            )
    for channel, windows in enumerate(one.beats):
        y = ports_top + channel * (BAR + 2)
        parts.append(_label(f"port {channel:02}", y + BAR / 2, "small"))
        for k, beats in enumerate(windows):
            if beats:
                at, share = x(one.begin + k * WINDOW), round(int(beats) / WINDOW, 3)
                parts.append(
                    f'<rect class="beat" x="{at}" y="{y}" width="{round(WINDOW * scale, 2)}" height="{BAR}" '
                    f'fill-opacity="{share}"/>'
                )
    bottom = ports_top + channels * (BAR + 2) + 4
    parts += _axis(total, x, one.begin, bottom)
    parts += _legend(one, bottom + 40)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _label(text: str, y: float, size: str = "") -> str:
    return f'<text class="{size}" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'


def _axis(total: int, x, begin: int, y: float) -> list[str]:
    step = next(s for s in (100, 200, 500, 1000, 2000, 5000, 10_000, 50_000, 1 << 62) if total / s <= 12)
    parts = [f'<line class="axis" x1="{x(begin)}" x2="{x(begin + total)}" y1="{y}" y2="{y}"/>']
    for cycle in range(0, total, step):
        at = x(begin + cycle)
        parts.append(f'<line class="axis" x1="{at}" x2="{at}" y1="{y}" y2="{y + 4}"/>')
        parts.append(f'<text class="small" x="{at}" y="{y + 16}" text-anchor="middle">{cycle:,}</text>')
    return [*parts, f'<text class="small" x="{LEFT - 8}" y="{y + 16}" text-anchor="end">cycle</text>']


def _legend(one: PassTrace, y: float) -> list[str]:
    parts, at = [], LEFT
    sums = one.cycles()
    for name, colour in COLOURS.items():
        stream, turnaround = sums[name]
        if stream + turnaround:
            text = f"{name} {stream + turnaround:,}"
            parts.append(f'<rect x="{at}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
            parts.append(f'<text class="small" x="{at + 14}" y="{y}">{text}</text>')
            at += 28 + 6 * len(text)
    return parts
