"""Active-row gather: broadcast words in, picked elements of this channel's group out, one a cycle.

broadcast ─► vector buffer ─► fetched word ─► current word ─► lowest picked element
                                   │                                │
commands ─► next command ─► running command                         │
                                           lanes ◄── items ◄────────┴────────► rows ──► fetch
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..config import Engine
from ..lib.priority_encoder import PriorityEncoder, at_least
from ..lib.queue import Queue
from ..types import CHANNEL_BITS, COLUMN_BITS, ChannelCommand, Item
from .gather_words import NextCommand, VectorBuffer

# a row of the channel's group, or the end of the list
ROW = data.StructLayout({"row": 13, "valid": 1, "last": 1})
ROWS = 4  # rows that wait for the address side


class Gather(wiring.Component):
    """Works MATRIX and HEAD commands in order on the words of the vector buffer.

    In active mode (without `stream`) it picks the nonzero elements of the channel's group and sends each as
    an item and as a row, for HEAD again for every tile; otherwise all elements of the group, as items only.
    The last item of a command (of a tile, for HEAD) carries `last`; if the last word has no picked element,
    a marker without row does. A channel that takes no part sends just the marker.

    Throughput: an item a cycle, without bubbles between words and between commands; a word without a picked
    element costs a cycle. Back-pressure: waits for either stream. A row is on its way when its item is, so
    lanes and address side cannot block each other. The vector buffer cannot wait: `engine.vector_words` hold
    all vectors alive.

    Attributes
    ----------
    LATENCY : int
        Cycles from a word to its first item, when the gather waits for it; the row comes a cycle later.

    Members
    -------
    commands : In(stream of ChannelCommand)
        DIRECT_READ and FENCE are passed over.
    group, active : In
        Place of this channel for the `columns` output, one cycle later.
    columns, log_groups : Out
        Of the current command.
    word_valid, word : In
        Broadcast VECTOR word.
    items : Out(stream of Item)
    rows : Out(stream of ROW)
    """

    LATENCY = 3  # written, read, taken

    def __init__(self, engine: Engine):
        self._engine = engine
        super().__init__(
            {
                "commands": In(stream.Signature(ChannelCommand)),
                "columns": Out(COLUMN_BITS),
                "log_groups": Out(3),
                "group": In(CHANNEL_BITS),
                "active": In(1),
                "word_valid": In(1),
                "word": In(8 * engine.lanes),
                "items": Out(stream.Signature(Item)),
                "rows": Out(stream.Signature(ROW)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decoded = decoded = NextCommand(self._engine)
        m.submodules.buffer = buffer = VectorBuffer(self._engine)
        m.submodules.row_queue = rows = Queue(ROW, depth=ROWS)
        connect(m, flipped(self.commands), decoded.commands)
        connect(m, rows.o, flipped(self.rows))
        m.d.comb += [
            self.columns.eq(decoded.columns),
            self.log_groups.eq(decoded.log_groups),
            decoded.group.eq(self.group),
            decoded.active.eq(self.active),
            decoded.ready.eq(buffer.next_ready),
            buffer.next_valid.eq(decoded.valid),
            buffer.next_about.eq(decoded.about),
            buffer.next_words.eq(decoded.words),
            buffer.next_tiles.eq(decoded.tiles),
            buffer.next_head.eq(decoded.head),
            buffer.word_valid.eq(self.word_valid),
            buffer.word.word.eq(self.word),
        ]
        some = (self.word.word_select(lane, 8).any() for lane in range(self._engine.lanes))
        m.d.comb += buffer.word.some.eq(Cat(some))
        self._pick(m, buffer, rows.i)
        return m

    def _pick(self, m, buffer, rows):
        """The lowest picked element goes out; a last word with nothing picked sends the marker.

        How many are left (`some`, `many`: at least one, two) is counted a cycle ahead, so that the decision
        to
        take the next word is short.
        """
        lanes = self._engine.lanes
        lane_bits = exact_log2(lanes)
        holds, mask = Signal(), Signal(lanes)  # a word is here, elements still to send
        some, many = Signal(), Signal()
        about = Signal.like(buffer.kept_about)
        values = [Signal(8, name=f"value_{lane}", reset_less=True) for lane in range(lanes)]
        local, rest = Signal(lanes), Signal(lanes)
        pick = PriorityEncoder(m, mask, local)
        sends, done, last, taken = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            rest.eq(mask & ~pick.chosen),
            last.eq(~many & about.last),
            sends.eq(holds & (some | about.last) & (about.stream | rows.ready)),
            done.eq(Mux(some | about.last, self.items.ready & (about.stream | rows.ready), 1)),
            buffer.take.eq(~holds | (~many & done)),
            taken.eq(buffer.take & buffer.there),
            # A row leaves in the cycle of its item. `rows.ready` falls by a transfer only, so `items.valid`
            # holds.
            self.items.valid.eq(sends),
            self.items.p.value.eq(pick.select(values, 8)),
            self.items.p.valid_row.eq(some),
            self.items.p.last.eq(last),
            rows.valid.eq(sends & ~about.stream & self.items.ready),
            # index * lanes + lane, over the number of groups: the lane's part is selected, not shifted
            # afterwards
            rows.p.row.eq(
                (Cat(C(0, lane_bits), about.index) >> about.log_groups)
                | pick.select([C(lane, lane_bits) >> about.log_groups for lane in range(lanes)], lane_bits)
            ),
            rows.p.valid.eq(some),
            rows.p.last.eq(last),
        ]
        with m.If(buffer.take):
            m.d.sync += holds.eq(buffer.there)
        with m.Elif(done):
            m.d.sync += [mask.eq(rest), some.eq(many), many.eq(at_least(mask, 3)[2])]
        word, its = buffer.kept, buffer.kept_about
        elements = its.lanes & (word.some | its.stream.replicate(lanes))
        with m.If(taken):
            m.d.sync += [about.eq(its), mask.eq(elements), Cat(some, many).eq(Cat(*at_least(elements, 2)))]
            m.d.sync += [value.eq(word.word.word_select(lane, 8)) for lane, value in enumerate(values)]
