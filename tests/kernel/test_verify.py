"""A card whose memory is damaged: `--verify` names the token, the layer and the operation."""

import re

import pytest

from symlight.host.device.session import Session
from symlight.host.device.verify import VerificationError, Verifier

pytestmark = pytest.mark.kernel("sim4")
PROMPT = [1, 2, 3, 4, 5, 6]
LAST = "the operation is the head"


def regions(layout) -> dict[str, tuple[int, int, str]]:
    """First beat, beats, and what the message says, by what is stored there."""
    found = {
        f"{name} of layer {layer}": (
            layout.bases[layer][name],
            getattr(layout, name).size,
            f"layer {layer}, operation {operation}",
        )
        for layer, name, operation in (
            (1, "qkv", "qkv: ring"),
            (0, "decay", "decay: decay state"),
            (0, "out", "attention or out"),
            (1, "up", "up"),
            (0, "down", "down"),
        )
    }
    embedding = layout.shape.vocab // layout.engine.side_channels * layout.embed_beats
    return found | {
        "embedding": (layout.embed_base, embedding, "operation embed: membrane"),
        "prior": (layout.prior_base, layout.prior.size, LAST),
        "head": (layout.head_base, layout.tiles * layout.tile_beats, LAST),
    }


PLACES = (
    "embedding",
    "qkv of layer 1",
    "decay of layer 0",
    "out of layer 0",
    "up of layer 1",
    "down of layer 0",
    "prior",
    "head",
)


@pytest.mark.parametrize("place", PLACES)
def test_damaged_memory_is_named(bench, tiny, place):
    card = bench(tiny, hbm="ideal")
    first, beats, operation = regions(card.layout)[place]
    beat = card.layout.engine.beat_bytes
    for channel in range(card.layout.engine.channels):
        card.memory(channel).data[first * beat : (first + beats) * beat] ^= 0x41
    with pytest.raises(VerificationError) as caught:
        Session(card.machine, verifier=Verifier(tiny)).turn(PROMPT, 12)
    message = str(caught.value)
    assert operation in message, message
    at_the_end, inside = "^token [0-9]+ differs: ", r"while ingesting (prompt )?token [0-9]+ \(id [0-9]+, "
    assert re.search(at_the_end if operation == LAST else inside, message), message
