"""What lies where in the channels' buffers, as a table, for `symlight verilog` and `symlight package`."""

from collections.abc import Iterator
from dataclasses import asdict

from ..types import ENTRY_BYTES
from .layout import Layout


def hbm_map(layout: Layout) -> dict:
    """Plans, and every region in bytes. The offsets hold in every channel; the first `channels` have content
    there."""
    beat = layout.engine.beat_bytes
    plans = ("qkv", "decay", "out", "up", "down", "prior")
    return {
        "format": 1,
        "engine": layout.engine.to_json(),
        "shape": layout.shape.to_json(),
        "bytes_per_channel": layout.channel_size * beat,
        "bytes_channel_0": layout.size * beat,
        "plans": {name: asdict(getattr(layout, name)) for name in plans} | {"ring": asdict(layout.ring)},
        "regions": [
            {"name": name, "offset": base * beat, "bytes": beats * beat, "channels": channels}
            for name, base, beats, channels in sorted(_regions(layout), key=lambda region: region[1])
        ],
    }


def _regions(layout: Layout) -> Iterator[tuple[str, int, int, int]]:
    """(name, first beat, beats, channels that hold some of it: 0 .. that - 1)."""
    every, beat = layout.engine.channels, layout.engine.beat_bytes
    yield "header", 0, -(-ENTRY_BYTES // beat), 1
    for layer, bases in enumerate(layout.bases):
        for name in ("qkv", "decay", "out", "up", "down"):
            plan = getattr(layout, name)
            yield f"layer {layer} {name}", bases[name], plan.size, plan.groups * plan.columns
        ring = layout.ring
        yield f"layer {layer} ring", bases["ring"], ring.size, (1 << ring.log_groups) * ring.columns
    yield "prior", layout.prior_base, layout.prior.size, layout.prior.groups * layout.prior.columns
    yield "head", layout.head_base, layout.tiles * layout.tile_beats, every
    side = layout.engine.side_channels
    yield "embedding", layout.embed_base, -(-layout.shape.vocab // side) * layout.embed_beats, side
    yield "logits", layout.logit_base, layout.logit_beats, every
    yield "operation table", layout.table_base, -(-layout.table_entries * ENTRY_BYTES // beat), 1
    yield "parameters", layout.parameter_base, layout.parameter_words * layout.parameter_beats, 1
    yield "gelu table", layout.gelu_base, 256 // beat, 1
    yield "slopes", layout.slope_base, layout.slope_beats, 1
