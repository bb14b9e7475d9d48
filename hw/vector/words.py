"""The word operation: what the task runner asks the vector unit to do in one cycle."""

from amaranth.lib import data, enum

from ..types import BroadcastKind


class Route(enum.Enum, shape=4):
    """Where a word goes. Drain routes start with a word of the drain bus, the others in a memory."""

    EVENT = 0  # drain -> event -> broadcast as `kind`
    DECAY = 1  # drain -> requantise -> decay state
    RESIDUAL = 2  # drain -> requantise -> + residual -> pre-LayerNorm memory, statistics
    STEP = 3  # drain -> threshold -> broadcast
    GELU = 4  # drain -> requantise -> GELU -> broadcast
    WEIGHT = 5  # drain of attention denominators -> reciprocal of head `index`, in lane `sub`
    MIX = 6  # drain of attention numerators -> quotient, gate fusion -> broadcast
    PROBE = 7  # drain for the sequencer itself: argmax, counters
    NORMALISE = 8  # pre-LayerNorm memory -> residual stream, events or head input -> broadcast
    SPIKES = 9  # spike memory -> broadcast
    REPLAY = 10  # head input memory -> broadcast
    MEMBRANE = 11  # membrane memory -> dump port
    STATE = 12  # decay state memory -> dump port


DRAIN_ROUTES = (
    Route.EVENT,
    Route.DECAY,
    Route.RESIDUAL,
    Route.STEP,
    Route.GELU,
    Route.WEIGHT,
    Route.MIX,
    Route.PROBE,
)


class WordOp(data.Struct):
    """One word's way through the vector unit."""

    route: Route
    kind: BroadcastKind  # EVENT: kind of the broadcast word
    index: 8  # word of the vector (WEIGHT: head of the model)
    sub: 8  # EVENT: index of the broadcast word; WEIGHT: lane; MIX: head of the model
    fresh: 1  # WEIGHT: a new word of the drain bus (else the held one)
    first: 1
    last: 1  # last word of the task step; `done` follows it out of the pipeline
    parameter: 13  # parameter word
    state: 10  # word of the decay state
