"""What the mailbox counts: cycles by phase, bytes by operation, passes, nonzero inputs."""

import numpy as np
import pytest

from symlight.hw.interface import Flag, Traffic
from symlight.model.reference import SITES

pytestmark = pytest.mark.kernel("sim4")
PROMPT = 9
NEW = 6
PASSES = PROMPT + NEW - 1


@pytest.mark.parametrize("flags", [Flag(0), Flag.DENSE | Flag.FULL_KV], ids=["partial", "dense"])
def test_phases_add_up_to_the_passes(bench, demo, flags):
    card = bench(demo, flags=flags)
    cycles = card.run(card.prompt(PROMPT), NEW).cycles
    counted = sum(stream + gap for stream, gap in cycles.phases.values())
    assert counted == cycles.prompt + cycles.decode
    assert counted < cycles.total < counted + 5000, "start and mailbox are a small part"
    for name in ("qkv", "decay", "attention", "out", "up", "down", "prior", "head"):
        assert sum(cycles.phases[name]) > 0, name
    assert cycles.prompt > 0 and cycles.decode > 0


def test_bytes_of_a_dense_run_are_those_of_the_layout(bench, demo):
    card = bench(demo, flags=Flag.DENSE | Flag.FULL_KV)
    result = card.run(card.prompt(PROMPT), NEW)
    assert result.bytes_read == predicted(card, NEW)


def predicted(card, heads: int) -> dict[str, int]:
    """Bytes of PASSES dense passes with the whole ring, `heads` of them with the decoding head."""
    layout, shape, beat = card.layout, card.layout.shape, card.layout.engine.beat_bytes
    channels = layout.engine.channels

    def matrix(plan) -> int:  # every group's rows, on every channel of its columns
        return plan.size * plan.groups * plan.columns

    layers = {name: matrix(getattr(layout, name)) for name in ("qkv", "decay", "out", "up", "down")}
    beats = {name: count * shape.layers * PASSES for name, count in layers.items()}
    beats["prior"] = matrix(layout.prior) * heads
    beats["head"] = layout.tiles * layout.tile_beats * channels * heads
    beats["kv"] = shape.slots * layout.ring.slot_beats * layout.ring.columns * shape.layers * PASSES
    beats["embed"] = layout.embed_beats * PASSES
    return {name: beats.get(name, 0) * beat for name in (kind.name.lower() for kind in Traffic)} | {
        "io": io_bytes(card)
    }


def io_bytes(card) -> int:
    """Prompt ids are read in whole beats."""
    beat = card.layout.engine.beat_bytes
    return -(-4 * PROMPT // beat) * beat


def test_active_rows_are_the_bytes_read(bench, demo):
    """With the gather on, an operation reads its active rows and nothing else."""
    card = bench(demo)
    result = card.run(card.prompt(PROMPT), NEW)
    layout, beat = card.layout, card.layout.engine.beat_bytes
    for site, name in zip(SITES, ("qkv", "decay", "up", "down"), strict=True):
        plan = getattr(layout, name)
        rows = int(result.active[:, SITES.index(site)].sum())
        assert result.bytes_read[name] == rows * plan.beats * plan.columns * beat, name
    dense = predicted(card, NEW)
    for name in ("out", "prior", "head", "embed", "io"):
        assert result.bytes_read[name] == dense[name], name
    assert 0 < result.bytes_read["kv"] < dense["kv"]


def test_the_memory_ports_saw_the_same_beats(bench, demo):
    card = bench(demo)
    before = card.card.model.total("read_beats")
    result = card.run(card.prompt(PROMPT), NEW)
    seen = card.card.model.total("read_beats") - before
    assert seen * card.layout.engine.beat_bytes == sum(result.bytes_read.values())


def test_every_layer_and_site_is_counted(bench, demo):
    """The counts of each place equal the reference's, run by run, and start from zero in every run."""
    card = bench(demo)
    first = card.run(card.prompt(PROMPT), NEW)
    second = card.run(card.prompt(3, seed=2), 2)
    assert first.active.shape == (demo.shape.layers, len(SITES))
    assert np.all(first.active > 0) and np.all(second.active.sum(axis=0) < first.active.sum(axis=0))
    assert second.passes == 5


def test_head_only_after_the_last_prompt_token(bench, demo):
    card = bench(demo)
    one = card.run(card.prompt(2), 1).bytes_read["head"]
    card.reset()
    assert card.run(card.prompt(20), 1).bytes_read["head"] == one > 0
