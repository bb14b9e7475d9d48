"""Front of the attention engine: sorts broadcast words, and derives from a KV command what this channel does
for it."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...config import Engine
from ...types import (
    BEAT_ADDRESS,
    CHANNEL_BITS,
    COLUMN_BITS,
    BroadcastKind,
    KvCommand,
    RingShape,
    beat_layout,
    broadcast_layout,
)

SLOPE_BITS = 10


def cast_port(engine: Engine) -> wiring.Signature:
    """Broadcast words: a stream that is always ready."""
    return wiring.Signature({"valid": Out(1), "payload": Out(broadcast_layout(engine))})


class BroadcastReceiver(wiring.Component):
    """Picks this column's q, k and v words from the broadcast bus, and keeps the slopes of all heads.

    Latency 1; takes a word every cycle.

    Parameters
    ----------
    engine : Engine

    Members
    -------
    cast : In(cast_port(engine))
    column, half : In
        This channel's column; beats of k (or v) in a slot; static.
    q : Out
        {valid, index, word}: q word `index` of this column.
    kv : Out
        {valid, value, index, beat, word}: k or v word `index` of the current token, `beat` of its slot.
    start : Out
        q is complete: with the first word of k, whichever column has it.
    complete : Out
        k and v are complete: with the last word of v.
    slopes : Out
    """

    def __init__(self, *, engine: Engine):
        self._engine = engine
        word = beat_layout(engine)
        super().__init__(
            {
                "cast": In(cast_port(engine)),
                "column": In(COLUMN_BITS),
                "half": In(range(engine.query_words + 1)),
                "q": Out(
                    wiring.Signature(
                        {"valid": Out(1), "index": Out(range(engine.query_words)), "word": Out(word)}
                    )
                ),
                "kv": Out(
                    wiring.Signature(
                        {
                            "valid": Out(1),
                            "value": Out(1),
                            "index": Out(range(engine.query_words)),
                            "beat": Out(range(2 * engine.query_words)),
                            "word": Out(word),
                        }
                    )
                ),
                "start": Out(1),
                "complete": Out(1),
                "slopes": Out(data.ArrayLayout(SLOPE_BITS, engine.heads)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cast, kind = self.cast.payload, self.cast.payload.kind
        first, end = Signal(12), Signal(12)  # first head-space word of this column, and of the next one
        local = Signal(8)
        mine = Signal()
        word = Signal(8 * self._engine.lanes, reset_less=True)
        m.d.sync += [
            first.eq(self.column * self.half),
            end.eq(first + self.half),
            self.q.valid.eq(0),
            self.kv.valid.eq(0),
            self.start.eq(0),
            self.complete.eq(0),
        ]
        m.d.comb += [
            local.eq(cast.index - first),
            mine.eq((cast.index >= first) & (cast.index < end)),
            self.q.word.as_value().eq(word),
            self.kv.word.as_value().eq(word),
        ]
        with m.If(
            self.cast.valid
            & ((kind == BroadcastKind.QUERY) | (kind == BroadcastKind.KEY) | (kind == BroadcastKind.VALUE))
        ):
            m.d.sync += [
                self.q.index.eq(local),
                self.kv.index.eq(local),
                self.kv.value.eq(kind == BroadcastKind.VALUE),
                self.kv.beat.eq(local + Mux(kind == BroadcastKind.VALUE, self.half, 0)),
                self.q.valid.eq(mine & (kind == BroadcastKind.QUERY)),
                self.kv.valid.eq(mine & (kind != BroadcastKind.QUERY)),
                self.start.eq((kind == BroadcastKind.KEY) & (cast.index == 0)),
                self.complete.eq((kind == BroadcastKind.VALUE) & cast.last),
            ]
            with m.If(mine):
                m.d.sync += word.eq(cast.word)
        self._store_slopes(m, cast)
        return m

    def _store_slopes(self, m, cast):
        """Slopes are 16-bit numbers, so lanes / 2 in a word, low byte first."""
        per_word = self._engine.lanes // 2
        numbers = data.View(data.ArrayLayout(16, per_word), cast.word.as_value())
        stored = self.cast.valid & (cast.kind == BroadcastKind.SLOPE)
        for head in range(self._engine.heads):
            # Like the model's other parameters, slopes outlive the reset behind a fault.
            slope = Signal(SLOPE_BITS, name=f"slope{head}", reset_less=True)
            m.d.comb += self.slopes[head].eq(slope)
            with m.If(stored & (cast.index == head // per_word)):
                m.d.sync += slope.eq(numbers[head % per_word])


class KvCommandDecoder(wiring.Component):
    """What this channel does for a KV command. All outputs are registered.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    LATENCY : int
        Cycles from `command` until the outputs belong to it (the other inputs are static).

    Members
    -------
    command : In(KvCommand)
    ring, half, group, active : In
    count : Out
        Slots of this group that take part.
    loads : Out
        Slots of this group that the loader brings.
    none : Out
        Nothing is loaded for any channel.
    here : Out
        The current token's slot is in this group, ...
    local : Out
        ... as this local slot, ...
    stage, address : Out
        ... at this beat of each half of the staging memory, and of the channel's buffer.
    """

    LATENCY = 3

    def __init__(self, *, engine: Engine):
        super().__init__(
            {
                "command": In(KvCommand),
                "ring": In(RingShape),
                "half": In(range(engine.query_words + 1)),
                "group": In(CHANNEL_BITS),
                "active": In(1),
                "count": Out(10),
                "loads": Out(10),
                "none": Out(1),
                "here": Out(1),
                "local": Out(9),
                "stage": Out(range(engine.stage_beats)),
                "address": Out(BEAT_ADDRESS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shift = self.ring.log_groups
        mask = Signal(CHANNEL_BITS)  # groups - 1
        bias = Signal(CHANNEL_BITS)  # the group's share of n slots is (n + bias) / groups
        offset = Signal(14)  # of the current slot in each half of the layer's ring
        m.d.comb += mask.eq((1 << shift) - 1)
        m.d.sync += [
            bias.eq(mask - self.group),
            self.count.eq(Mux(self.active, (self.command.attend + bias) >> shift, 0)),
            self.loads.eq(Mux(self.active, (self.command.load + bias) >> shift, 0)),
            self.none.eq(self.command.load == 0),
            self.here.eq(self.active & ((self.command.slot & mask) == self.group)),
            self.local.eq(self.command.slot >> shift),
            offset.eq(self.local * self.half),
            self.stage.eq(self.command.stage + offset),
            self.address.eq(self.command.base + (offset << 1)),
        ]
        return m
