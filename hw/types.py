"""Every layout and opcode that two modules of the accelerator share.

Widths that depend on the engine come from functions of `Engine`; the rest is fixed. No bit offset is written
anywhere else.
"""

from amaranth.hdl import signed
from amaranth.lib import data, enum

from .config import Engine
from .interface import CHANNEL_BITS

ACC_BITS = 32  # accumulators, drain bus lanes
BEAT_ADDRESS = 24  # beat address within a channel's buffer (256 MB / 16 B)
BEATS_BITS = 7  # beats of one row's slice
ACC_ADDRESS = 7  # accumulator word
COLUMN_BITS = CHANNEL_BITS + 1  # a column, or how many there are: as many as channels
HEADS_BITS = 5  # heads of a column
HEAD_WORDS_BITS = 5  # words (= beats) of one head's k or v
TRAFFIC_BITS = 4  # kind of read traffic (interface.Traffic)
SHIFT_BITS = 6  # right shift of a scale
GAMMA_SHIFT_BITS = 5  # of a LayerNorm's gain


class Work(enum.Enum, shape=2):
    """Kind of a channel command."""

    MATRIX = 0  # rows of a matrix into accumulators
    HEAD = 1  # output-stationary tiles of the decoding head; without `stream` only the rows of nonzero inputs
    DIRECT_READ = 2  # beats of one channel straight to the drain bus
    FENCE = 3  # address side: wait until every KV read of the oldest unfenced KV command is issued


class ChannelCommand(data.Struct):
    """One operation of a channel, in program order (broadcast to all channels)."""

    work: Work
    stream: 1  # MATRIX, HEAD: addresses do not depend on the vector, every row is read, consecutive beats
    io: 1  # DIRECT_READ: base is relative to the io pointer (channel 0 only)
    base: BEAT_ADDRESS  # first beat of the matrix in this channel's buffer
    words: 8  # vector words consumed (rows = words * lanes, of all groups together)
    beats: BEATS_BITS
    log_groups: 3  # rows go to group (row mod 2^log_groups)
    columns: COLUMN_BITS  # slices a row is cut into; channel k is group k // columns, column k % columns
    acc: ACC_ADDRESS  # first accumulator word
    count: 12  # HEAD: tiles; DIRECT_READ: beats
    logits: 1  # HEAD: write every logit to the channel's buffer
    candidates: 1  # HEAD: keep the largest logits in order
    channel: CHANNEL_BITS  # DIRECT_READ: the channel that reads
    traffic: TRAFFIC_BITS  # counter of its read beats


class KvCommand(data.Struct):
    """Ring work of one layer in one pass (broadcast to all channels)."""

    base: BEAT_ADDRESS  # first beat of the layer's ring in every channel's buffer
    stage: 14  # first beat of the layer's ring in each half of the staging memory
    load: 10  # slots 0 .. load - 1 are read from HBM (the current slot among them is dropped)
    attend: 10  # slots 0 .. attend - 1 take part in attention
    slot: 9  # slot of the current token
    position: 20  # its position


class RingShape(data.Struct):
    """Quasi-static shape of attention; set by LOAD."""

    log_groups: 3  # slot s lives in group s mod 2^log_groups
    columns: COLUMN_BITS  # heads are cut into this many columns
    heads: HEADS_BITS
    head_words: HEAD_WORDS_BITS
    anchors: 7
    ring: 10  # slots that wrap: window + 1
    score_frac: 3  # left shift of q . k


class Item(data.Struct):
    """A gathered vector element on its way to the lanes, or an end marker."""

    value: signed(8)
    valid_row: 1  # has a row of weights; 0: marker without element
    last: 1  # last item of the operation (HEAD: of the tile)


def beat_layout(engine: Engine) -> data.ArrayLayout:
    """A beat read from memory: byte l belongs to lane l."""
    return data.ArrayLayout(8, engine.lanes)


def stage_layout(engine: Engine) -> data.StructLayout:
    """A beat on its way into the half of the KV staging memory that holds keys, or values."""
    return data.StructLayout({"value": 1, "address": range(engine.stage_beats), "data": beat_layout(engine)})


def write_layout(engine: Engine) -> data.StructLayout:
    """A beat on its way to memory, relative to the io pointer or to the channel's own."""
    return data.StructLayout({"io": 1, "address": BEAT_ADDRESS, "data": beat_layout(engine)})


class BroadcastKind(enum.Enum, shape=3):
    """Kind of a broadcast word."""

    VECTOR = 0  # append to the vector buffer
    QUERY = 1  # q word `index` of the head space
    KEY = 2  # with `index` 0: the layer's q is complete, attention may start
    VALUE = 3  # with `last`: the current token's k and v are complete
    SLOPE = 4  # ALiBi slopes as 16-bit numbers, slope (index * lanes / 2) first
    WRITE = 5  # write `word` at beat `address` of the io buffer, by channel 0


def broadcast_layout(engine: Engine) -> data.StructLayout:
    """A word from the vector unit to all channels; no back-pressure."""
    return data.StructLayout(
        {
            "kind": BroadcastKind,
            "last": 1,
            "index": 8,
            "address": BEAT_ADDRESS,
            "word": data.ArrayLayout(8, engine.lanes),
        }
    )


class Source(enum.Enum, shape=3):
    """What a drain request reads."""

    ACC = 0  # accumulator word `address`; reading clears it
    WEIGHTED = 1  # attention numerators, word `address` (local head * head_words + word)
    WEIGHT = 2  # attention denominators: lane h is local head h
    BEST = 3  # lanes 0, 1: low and high half of the best logit; lane 2: its id
    COUNTER = 4  # lane 0: read beats of traffic `address`
    NEXT = 5  # as BEST: the next best logit, which is then forgotten


class DrainRequest(data.Struct):
    """Read request from the vector unit to all channels; channels of another column answer zeros."""

    source: Source
    address: 8
    column: COLUMN_BITS
    columns: COLUMN_BITS


def drain_layout(engine: Engine) -> data.ArrayLayout:
    """One word of the drain bus, before and after the group reduction."""
    return data.ArrayLayout(signed(ACC_BITS), engine.lanes)


class ScaleParameter(data.Struct):
    """48-bit parameter of one element: requantisation, with an event threshold or a decay coefficient."""

    multiplier: 15
    shift: SHIFT_BITS
    extra: 27  # event threshold, or beta (Q0.16) in its low bits


class NormParameter(data.Struct):
    """48-bit parameter of one element of a LayerNorm."""

    gamma: signed(16)
    beta: signed(16)
    tau: signed(16)  # spike threshold behind the LayerNorm


class StepParameter(data.Struct):
    """48-bit parameter of one feed-forward neuron."""

    threshold: signed(32)
    unused: 16


class Task(enum.Enum, shape=4):
    """What the vector unit does with an operation's result (architecture, "Tasks of a pass")."""

    EMBED = 0  # embedding row -> residual stream, LIF membrane, events, spikes
    QKV = 1  # broadcast the spikes; drain q, k, v -> events -> attention and ring
    DECAY = 2  # drain z -> decay state
    MIX = 3  # drain attention -> quotient, gate fusion -> broadcast
    NORM_U = 4  # drain W_O -> + c -> LayerNorm -> u, events -> broadcast
    STEP = 5  # drain W_up -> threshold -> broadcast
    NORM_C = 6  # drain W_down -> + u -> LayerNorm -> c, spikes, events or head input -> broadcast
    PRIOR = 7  # broadcast the head input again; drain W_p1 -> GELU -> broadcast
    HEAD = 8  # collect the argmax of all channels
    END = 9  # end of the table


class OpEntry(data.Struct):
    """One operation of the pass, as it lies in channel 0's image (64 bytes, little endian)."""

    task: Task
    has_command: 1  # `command` goes to the channels
    command: ChannelCommand
    event: 1  # an event site: `command.stream` follows the gather mode
    head: 1  # only in passes that evaluate the head
    has_kv: 1  # a KvCommand goes with it
    kv_base: BEAT_ADDRESS
    kv_stage: 14
    fence: 1  # a FENCE follows the command
    phase: 4  # interface.Phase
    counted: 1  # count the nonzero elements of what this task broadcasts
    statistic: 8  # ... in this counter (4 * layer + site)
    words: 8  # words this task drains
    # words of a column (drain geometry), first word of a column at accumulator command.acc
    slice: BEATS_BITS
    columns: COLUMN_BITS
    parameter: 13  # first parameter word: scale, event or step parameters
    norm: 13  # first parameter word of the LayerNorm
    state: 10  # first word of the layer's decay state
    multiplier_a: 15  # event M, head input M, or G_o
    multiplier_b: 15  # G_h
    shift_a: SHIFT_BITS  # event shift, head input shift, or sh_m
    threshold: 15  # event T, T_m of MIX, T_h of the head input; 0: none
    gamma_shift: GAMMA_SHIFT_BITS
    epsilon: signed(32)
    to_head: 1  # NORM_C of the last layer: its result is the head input


class Header(data.Struct):
    """First 64 bytes of channel 0's image: what LOAD needs to know, kept in registers afterwards."""

    magic: 32
    table_base: BEAT_ADDRESS
    table_entries: 10
    parameter_base: BEAT_ADDRESS
    parameter_words: 13
    gelu_base: BEAT_ADDRESS
    slope_base: BEAT_ADDRESS
    slope_beats: 4
    embed_base: BEAT_ADDRESS
    logit_base: BEAT_ADDRESS  # where every channel writes its logits
    logit_beats: BEAT_ADDRESS  # beats of one evaluated head
    ring_shape: RingShape
    layers: 7
    width: 12  # elements of the residual stream
    width_words: 7
    head_words: 7  # words of a head-space vector (q, or z)
    query_words: 7  # the same, of one of q, k, v
    state_words: 10  # words of decay state, all layers
    slots: 10
    vocab: 17
    inv_width: 33
    lif_leak: 15
    lif_threshold: 15
    lif_clamp: 15


ENTRY_BYTES = 64  # bytes of an OpEntry and of a Header in the image
PARAMETER_BITS = 48  # bits of one element of a parameter word
