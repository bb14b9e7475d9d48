"""Where everything lies in HBM: the active-row layout of a model on an engine (docs/hbm-map.md).

`Layout(engine, shape)` is pure arithmetic: groups, columns, slices and base beats of every region. The same
bases hold in every channel, so one command serves all. `hw.compiler.image` fills the bytes,
`hw.compiler.operation_table` writes the
operation table.
"""

from dataclasses import dataclass

from symlight.base.errors import UserError
from symlight.model.config import ModelShape

from ..axi import BANK_BYTES, PAGE_BYTES
from ..channel.lanes import HEAD_WORDS
from ..channel.logits import LOGIT_HEADS, beats_per_tile
from ..config import Engine
from ..types import BEAT_ADDRESS, ENTRY_BYTES, PARAMETER_BITS


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class MatrixPlan:
    """How one matrix is cut: rows over groups, output words over columns (architecture, "Words")."""

    in_words: int  # input words; rows = in_words * lanes
    out_words: int  # output words
    log_groups: int  # row i lives in group i mod 2^log_groups
    columns: int  # column c holds output words c * beats ..
    lanes: int

    @property
    def groups(self) -> int:
        return 1 << self.log_groups

    @property
    def beats(self) -> int:
        """Beats of a row's slice in one channel = output words of a column."""
        return _ceil(self.out_words, self.columns)

    @property
    def group_rows(self) -> int:
        """Rows of one group."""
        return self.in_words * self.lanes >> self.log_groups

    @property
    def size(self) -> int:
        """Beats in a channel."""
        return self.group_rows * self.beats


def plan_matrix(engine: Engine, in_words: int, out_words: int) -> MatrixPlan:
    """Groups and columns with the fewest beats a channel; the fewest groups among equals (less imbalance).

    At least `engine.joined` columns.
    """
    best = None
    log_groups = 0
    while 1 << log_groups <= min(engine.channels // engine.joined, engine.lanes):
        plan = MatrixPlan(in_words, out_words, log_groups, engine.channels >> log_groups, engine.lanes)
        if best is None or plan.size < best.size:
            best = plan
        log_groups += 1
    return best


@dataclass(frozen=True)
class RingPlan:
    """How the KV ring of a layer is cut: slots over groups, heads over columns."""

    log_groups: int  # slot s lives in group s mod 2^log_groups
    columns: int
    heads: int  # heads of a column
    head_words: int  # beats of one head's k or v
    slots: int

    @property
    def half(self) -> int:
        """Beats of k (or v) of one slot in a channel."""
        return self.heads * self.head_words

    @property
    def slot_beats(self) -> int:
        """Beats of one slot in a channel: K of the column's heads, then V."""
        return 2 * self.half

    @property
    def local_slots(self) -> int:
        """Slots of one group."""
        return _ceil(self.slots, 1 << self.log_groups)

    @property
    def size(self) -> int:
        """Beats of a layer's ring in a channel."""
        return self.local_slots * self.slot_beats


def plan_ring(engine: Engine, shape: ModelShape) -> RingPlan:
    """Groups and columns with the fewest beats a channel; the fewest groups among equals.

    At least `engine.joined` columns: those beyond the heads are empty.
    """
    head_words = _ceil(shape.head_width, engine.lanes)
    best = None
    log_groups = 0
    while 1 << log_groups <= engine.channels // engine.joined:
        heads = _ceil(shape.heads, engine.channels >> log_groups)
        columns = max(_ceil(shape.heads, heads), engine.joined)
        plan = RingPlan(log_groups, columns, heads, head_words, shape.slots)
        if best is None or plan.size < best.size:
            best = plan
        log_groups += 1
    return best


class Layout:
    """Regions and plans of `shape` on `engine`.

    Attributes (beats of one channel unless stated)
    ----------
    qkv, decay, out, up, down, prior : MatrixPlan
        Cut of the matrices; equal in all layers.
    ring : RingPlan
    width_words, query_words, ffn_words, prior_words : int
        Words of a residual vector, of a head-space vector, of the feed-forward vector, of the bottleneck.
    tiles, tile_beats : int
        Head tiles of a channel, and beats of one with its scales.
    bases : list[dict[str, int]]
        First beat of "qkv", "decay", "out", "up", "down", "ring" for every layer.
    logit_base, logit_beats, head_logit_beats : int
        Where every channel writes its logits, as words of int64, in the order of its head's rows: room for
        `LOGIT_HEADS` evaluated heads of a run, and those of one.
    channel_size : int
        Beats of the buffers of all channels but channel 0.
    prior_base, head_base, embed_base, table_base, parameter_base, gelu_base, slope_base : int
    size : int
        Beats of a channel's buffer (channel 0's is the largest and sets it).

    Raises
    ------
    UserError
        If the model does not fit the engine; the message names the quantity and both values.
    """

    def __init__(self, engine: Engine, shape: ModelShape):
        self.engine, self.shape = engine, shape
        lanes = engine.lanes
        self.width_words = _ceil(shape.width, lanes)
        self.ring = plan_ring(engine, shape)
        self.query_words = shape.heads * self.ring.head_words
        self.ffn_words = _ceil(shape.ffn, lanes)
        self.prior_words = _ceil(shape.bottleneck, lanes)
        self.qkv = plan_matrix(engine, self.width_words, 3 * self.query_words)
        self.decay = plan_matrix(engine, self.width_words, self.query_words)
        self.out = plan_matrix(engine, self.query_words, self.width_words)
        self.up = plan_matrix(engine, self.width_words, self.ffn_words)
        self.down = plan_matrix(engine, self.ffn_words, self.width_words)
        self.prior = plan_matrix(engine, self.width_words, self.prior_words)
        self.head_words = self.width_words + self.prior_words
        self.tiles = _ceil(shape.vocab, engine.channels * lanes)
        self.tile_beats = self.head_words * lanes + 2
        self._place()
        self._check()

    def _place(self):
        page = PAGE_BYTES // self.engine.beat_bytes
        self._next = page  # the first page of channel 0 holds the header

        def region(beats: int) -> int:
            base = self._next
            self._next += _ceil(beats, page) * page
            return base

        weights = ("qkv", "decay", "out", "up", "down")
        self.bases = []
        for _ in range(self.shape.layers):
            bases = {name: region(getattr(self, name).size) for name in weights}
            self.bases.append(bases)
        self.prior_base = region(self.prior.size)
        self.head_base = region(self.tiles * self.tile_beats)
        self.embed_beats = 2 * self.width_words
        self.embed_base = region(_ceil(self.shape.vocab, self.engine.side_channels) * self.embed_beats)
        for bases in self.bases:
            bases["ring"] = region(self.ring.size)
        self.ring_region = (self.bases[0]["ring"], self._next)
        self.head_logit_beats = self.tiles * beats_per_tile(self.engine)
        self.logit_beats = LOGIT_HEADS * self.head_logit_beats
        self.logit_base = region(self.logit_beats)
        self.channel_size = self._next  # only channel 0 holds what lies behind it
        beat = self.engine.beat_bytes
        self.table_entries = 6 * self.shape.layers + 4  # with EMBED, PRIOR, HEAD and END
        self.table_base = region(_ceil(self.table_entries * ENTRY_BYTES, beat))
        self.parameter_beats = PARAMETER_BITS // 8  # beats of a parameter word
        self.layer_parameters = 4 * self.query_words + 4 * self.width_words + self.ffn_words
        self.parameter_words = self.shape.layers * self.layer_parameters + self.prior_words
        self.parameter_base = region(self.parameter_words * self.parameter_beats)
        self.gelu_base = region(256 // beat)
        self.slope_beats = _ceil(2 * self.shape.heads, beat)
        self.slope_base = region(self.slope_beats)
        self.size = self._next

    def _check(self):
        engine, shape = self.engine, self.shape
        vector = max(2 * self.width_words, self.ffn_words, self.width_words + self.head_words)
        stage = self.ring.size * self._staged_layers
        needs = [
            ("accumulator words", self.qkv.beats + self.decay.beats, engine.accumulators),
            ("accumulator words", self.up.beats + self.down.beats, engine.accumulators),
            ("accumulator words", max(self.out.beats, self.prior.beats + HEAD_WORDS), engine.accumulators),
            ("vector buffer words", vector, engine.vector_words),
            ("residual words", self.width_words, engine.width_words),
            ("head-space words", self.query_words, engine.width_words),
            ("prior words", self.prior_words, engine.width_words),
            ("decay state words", shape.layers * self.query_words, min(engine.state_words, 1023)),
            ("parameter words", self.parameter_words, engine.parameter_words),
            ("operation table entries", self.table_entries, engine.table_entries),
            ("KV staging beats", stage, engine.kv_beats),
            ("query words of a column", self.ring.half, engine.query_words),
            ("heads of a column", self.ring.heads, engine.lanes),
            ("heads, padded to whole columns,", self.ring.columns * self.ring.heads, engine.heads),
            ("bytes of a channel", self.size * engine.beat_bytes, BANK_BYTES),
            ("beats of a channel", self.size, 1 << BEAT_ADDRESS),
        ]
        for what, need, have in needs:
            if need > have:
                raise UserError(
                    f"the model needs {need} {what}, this kernel has {have}; "
                    "generate a kernel from a larger card preset"
                )

    def embed_place(self, token: int) -> tuple[int, int]:
        """(channel, first beat) of a token's embedding row."""
        channels = self.engine.side_channels
        return token % channels, self.embed_base + token // channels * self.embed_beats

    @property
    def _staged_layers(self) -> int:
        """Layers whose rings are in the staging memory at a time."""
        return self.shape.layers if self.engine.kv_resident else min(2, self.shape.layers)

    def stage(self, layer: int) -> int:
        """First beat of a layer's ring in each half of the staging memory."""
        return self.ring.local_slots * self.ring.half * (layer % self._staged_layers)
